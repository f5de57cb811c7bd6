"""What one training step of a config costs on this machine: how many a second, and the bytes of its compiled program.

The step is the trainer's own, forward, backward and update, on a batch of full rows (nothing is padding) of random
tokens. Bytes are what the program needs at a time, by the compiler's account: its arguments (parameters, optimizer's
state, batch), its results as far as they take no argument's place, and what it allocates beside them. JAX is imported
where it is used, so that a study is read without it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.config import Config, resolve


def of_trial(workdir: Path) -> Config:
    """The config of a trial, which need not have been trained."""
    return resolve(json.loads((workdir / "trial.json").read_text(encoding="utf-8"))["given"])


def full_batch(shapes: dict[str, tuple[int, ...]], words: int, classes: int) -> dict[str, np.ndarray]:
    """Random tokens from 1 on in everything that is long, random classes as "label"; no row only fills."""
    chance = np.random.default_rng(0)
    last = {name: classes if name == "label" else words for name in shapes}
    first = {name: 0 if name == "label" else 1 for name in shapes}
    return {name: chance.integers(first[name], last[name], shape, np.int32) for name, shape in shapes.items()}


def cost(config: Config, seconds: float, least: int = 3) -> dict[str, float]:
    """{"steps_per_second" (of the median step), "megabytes", "parameters"}; steps for `seconds`, `least` at least."""
    import jax

    from attention_research.training.trainer import Trainer

    trainer = Trainer(config, alone=True)
    shapes = max(
        trainer.data.train_shapes(trainer.settings.batch_size), key=lambda one: sum(map(np.prod, one.values()))
    )
    model = config.resolved["model"]
    batch = full_batch(shapes, model["vocabulary_size"], model["num_classes"])
    step, start = trainer.step_and_start
    state = jax.jit(start)(0)
    compiled = jax.jit(step, donate_argnums=0).lower(state, batch).compile()
    held: Any = compiled.memory_analysis()
    size = held.argument_size_in_bytes + held.output_size_in_bytes - held.alias_size_in_bytes + held.temp_size_in_bytes
    times: list[float] = []
    while len(times) < least or sum(times) < seconds:
        began = time.perf_counter()
        state, metrics = jax.block_until_ready(compiled(state, batch))
        times.append(time.perf_counter() - began)
    if not np.isfinite(metrics["loss"]):
        raise ValueError(f"the loss of a measured step is {metrics['loss']}")
    parameters = sum(x.size for x in jax.tree.leaves(state["parameters"]))
    return {"steps_per_second": 1 / statistics.median(times), "megabytes": size / 1e6, "parameters": parameters}


def measure_step(*, workdir: Path, seed: int, seconds: float, **_: Any) -> dict[str, float]:
    """`cost` of a trial's config as it is trained alone; of the first seed only."""
    return {} if seed else cost(of_trial(workdir), seconds)


def measure_lengths(
    *, workdir: Path, lengths: Sequence[int], batch_size: int, seconds: float, **_: Any
) -> dict[str, Any]:
    """`cost` by length: "steps_per_second_4096" and "megabytes_4096", and the lists of both with their "lengths"."""
    found: dict[str, Any] = {"lengths": list(lengths), "speeds": [], "sizes": []}
    for length in lengths:
        config = of_trial(workdir).override([("max_length", length), ("training.batch_size", batch_size)])
        one = cost(config, seconds)
        found["speeds"].append(one["steps_per_second"])
        found["sizes"].append(one["megabytes"])
        found |= {f"{name}_{length}": one[name] for name in ("steps_per_second", "megabytes")}
    return found

"""The cost of one training step of a config on this machine: steps per second and the memory of the compiled program.

The step is that of the trainer, forward, backward and update, on a batch of random tokens in full rows without padding.
The memory is the peak reported by the compiler: the arguments (parameters, optimizer state, batch), the results that do
not reuse the memory of an argument, and temporary allocations. JAX is imported inside the functions, so that a study
can be loaded without it.
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
    """Returns the config of a trial, which may be untrained."""
    return resolve(json.loads((workdir / "trial.json").read_text(encoding="utf-8"))["given"])


def full_batch(shapes: dict[str, tuple[int, ...]], words: int, classes: int) -> dict[str, np.ndarray]:
    """Draws a batch: random tokens, not 0, in all long arrays, and random classes as "label". No row is padding."""
    chance = np.random.default_rng(0)
    last = {name: classes if name == "label" else words for name in shapes}
    first = {name: 0 if name == "label" else 1 for name in shapes}
    return {name: chance.integers(first[name], last[name], shape, np.int32) for name, shape in shapes.items()}


def cost(config: Config, seconds: float, least: int = 3) -> dict[str, float]:
    """Measures "steps_per_second" (of the median step), "megabytes" and "parameters".

    Steps are run for `seconds`, and at least `least` of them.
    """
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
    """Measures `cost` for the config of a trial that is trained alone, for the first seed only."""
    return {} if seed else cost(of_trial(workdir), seconds)


def measure_lengths(
    *, workdir: Path, lengths: Sequence[int], batch_size: int, seconds: float, **_: Any
) -> dict[str, Any]:
    """Measures `cost` by length: "steps_per_second_4096", "megabytes_4096" and so on, and both as lists with
    "lengths"."""
    found: dict[str, Any] = {"lengths": list(lengths), "speeds": [], "sizes": []}
    for length in lengths:
        config = of_trial(workdir).override([("max_length", length), ("training.batch_size", batch_size)])
        one = cost(config, seconds)
        found["speeds"].append(one["steps_per_second"])
        found["sizes"].append(one["megabytes"])
        found |= {f"{name}_{length}": one[name] for name in ("steps_per_second", "megabytes")}
    return found

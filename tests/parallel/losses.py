"""Losses of a small model's first ten updates on several meshes.

``losses MODEL RUNS`` prints {run: {"loss": [...]}}. Models with experts add "auxiliary_loss" and the share of tokens
"dropped".

A run is {"strategy": "jit" or "pmap" or "one", "dropout": rate, "parts": accumulation steps, a mesh axis: its size,
...}. "one" means one device.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, build_experiment, resolve
from attention_research.layers.structure import abstract
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.training.step import initial_state, make_train_step

ROWS, LENGTH, STEPS = 16, 16, 10
REPORTED = {"loss", "auxiliary_loss", "dropped"}
AXES = ("data", "fsdp", "tensor", "sequence", "expert")
RING = {name: {"kind": "ring"} for name in ("self_attention", "cross_attention")}
TRANSFORMER = {
    "kind": "transformer",
    "width": 16,
    "num_heads": 4,
    "num_layers": 2,
    "feed_forward": {"hidden_width": 24},
}
SWITCH = {"kind": "switch", "num_experts": 4, "expert": {"hidden_width": 24}}
#: Groups of two rows, so that each of several devices has a group. The second expert is always used, since under pmap
#: each device draws with its own key.
MIXTURE = {"kind": "mixture_of_experts", "num_experts": 4, "expert": {"hidden_width": 24}, "group_size": 2 * LENGTH,
           "threshold": 1e-6}  # fmt: skip
#: The jitter of its input is also drawn with a key.
RELEASED = {"kind": "switch_released", "num_experts": 4, "expert": {"hidden_width": 24}, "group_size": 2 * LENGTH,
            "jitter": 0.1}  # fmt: skip
#: A vocabulary in clusters, one of which does not divide, and a memory in place of a feed-forward layer.
CLUSTERS = {"kind": "adaptive_softmax", "cluster_sizes": (6, 9, 17), "cluster_widths": (16, 8, 4)}
MEMORY = {"kind": "product_key_memory", "num_keys": 8, "key_width": 8, "num_heads": 2, "knn": 4}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "ring": {**TRANSFORMER, "encoder": {"self_attention": {"kind": "ring"}}, "decoder": RING},
    "experts": {**TRANSFORMER, "feed_forward": SWITCH},
    "mixture": {**TRANSFORMER, "feed_forward": MIXTURE},
    "released": {**TRANSFORMER, "feed_forward": RELEASED},
    "one_group": {**TRANSFORMER, "feed_forward": {**RELEASED, "group_size": ROWS * LENGTH}},
    "clusters": {
        **TRANSFORMER,
        "vocabulary": CLUSTERS,
        "encoder": {"layout": {"kind": "one", "layer": 1, "feed_forward": MEMORY}},
    },
    "rnnsearch": {"kind": "recurrent", "width": 16},
}
TRAINING = {"optimizer": {"kind": "sgd"}, "schedule": {"kind": "constant"}, "learning_rate": 0.5}


def config(model: str, dropout: float) -> Config:
    """The config of a small translation model with this name."""
    return resolve(
        {
            "max_length": LENGTH,
            "vocabulary_size": 32,
            "data": {
                "name": "bible_translate/fr-en",
                "source_language": "fr",
                "target_language": "en",
                "batching": {"boundaries": (LENGTH,)},
            },
            "model": {**MODELS[model], "dropout_rate": dropout},
            "training": {"steps": STEPS, "batch_size": ROWS, **TRAINING},
        }
    )


def batches() -> list[dict[str, np.ndarray]]:
    """Rows of 16 to 1 real target tokens and 16 to 6 real source tokens, in unequal numbers on the devices."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(STEPS):
        batch = {name: rng.integers(4, 29, (ROWS, LENGTH)).astype(np.int32) for name in ("source", "target")}
        for row in range(ROWS):
            batch["target"][row, LENGTH - row :] = 0
            batch["source"][row, LENGTH - row * 2 // 3 :] = 0
        made.append(batch)
    return made


def losses(model: str, run: dict[str, Any]) -> dict[str, list[float]]:
    """The loss of each update, under plain gradient descent."""
    sizes = {axis: run.get(axis, 1) for axis in AXES}
    parts = build_experiment(config(model, run.get("dropout", 0.0)))
    make, settings = lambda rngs: parts.model(rngs=rngs), parts.training()
    optimizer, schedule = settings.optimizer(16), settings.schedule(16)
    step = make_train_step(
        abstract(make)[0], parts.task(), optimizer, schedule, accumulation_steps=run.get("parts", 1),
        axis_name=AXIS if run["strategy"] == "pmap" else None,
    )  # fmt: skip
    start = initial_state(make, optimizer)
    if run["strategy"] == "one":
        state, step, place = jax.jit(start)(0), jax.jit(step), dict
    else:
        on_mesh = run["strategy"] != "pmap"
        made = MeshExecution(step, start, sizes, 0) if on_mesh else PmapExecution(step, start, 0)
        state, step, place = made.start(), made.step, made.place
    found: dict[str, list[float]] = {}
    for batch in batches():
        state, metrics = step(state, place(batch))
        for name in REPORTED & metrics.keys():
            found.setdefault(name, []).append(float(metrics[name]))
    return found


if __name__ == "__main__":
    jax.config.update("jax_disable_most_optimizations", True)
    model, runs = map(json.loads, sys.argv[1:])
    print(json.dumps({name: losses(model, run) for name, run in runs.items()}))

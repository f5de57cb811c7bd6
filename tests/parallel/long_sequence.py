"""One head of width 16 over a very long sequence: ``long_sequence SHARE MESHES STEPS`` prints {devices: ...}.

The model is a decoder of one layer with ring attention and SHARE positions on each device. "bytes" is the size of XLA's
temporaries on one device. The largest mesh also reports the losses of STEPS updates.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax
import numpy as np

from attention_research.config import resolve
from attention_research.parallel.execution import MeshExecution
from attention_research.training.trainer import Trainer
from tests.parallel.losses import AXES


def trainer(length: int) -> Trainer:
    """A trainer of a one-layer language model, on one device. The mesh is passed separately."""
    return Trainer(
        resolve(
            {
                "max_length": length,
                "vocabulary_size": 32,
                "data": {
                    "name": "bible_translate/fr-en",
                    "source_language": "fr",
                    "target_language": "en",
                    "batching": {"boundaries": (length,)},
                },
                "model": {
                    "kind": "transformer_decoder",
                    "width": 16,
                    "num_heads": 1,
                    "num_layers": 1,
                    "dropout_rate": 0.0,
                    "self_attention": {"kind": "ring"},
                    "feed_forward": {"hidden_width": 16},
                },
                "training": {
                    "steps": 5,
                    "batch_size": 1,
                    "learning_rate": 0.02,
                    "schedule": {"kind": "constant"},
                },
                "parallel": {"mesh": {"sequence": jax.device_count()}},
            }
        )
    )


def measure(share: int, devices: int, steps: int) -> dict[str, Any]:
    """{"length", "bytes", "seconds", "losses"}."""
    length = share * devices
    run = trainer(length)
    sizes = {**dict.fromkeys(AXES, 1), "sequence": devices}
    execution = MeshExecution(*run.step_and_start, sizes, 0, devices=jax.devices()[:devices])
    # Each token is the previous token plus 1 or 2, so there is something to learn.
    tokens = np.cumsum(np.random.default_rng(0).integers(1, 3, (1, length)), axis=1) % 28 + 4
    batch = execution.place({"target": tokens.astype(np.int32)})
    program = execution.step.lower(execution.abstract, batch).compile()
    state, losses, began = execution.start(), [], time.perf_counter()
    for _ in range(steps):
        state, metrics = program(state, batch)
        losses.append(float(metrics["loss"]))
    return {
        "length": length,
        "bytes": program.memory_analysis().temp_size_in_bytes,
        "seconds": (time.perf_counter() - began) / max(steps, 1),
        "losses": losses,
    }


if __name__ == "__main__":
    share, meshes, steps = map(json.loads, sys.argv[1:])
    print(json.dumps({n: measure(share, n, steps if n == max(meshes) else 0) for n in meshes}))

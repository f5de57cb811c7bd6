"""The collectives of a small model's train step on several meshes: ``partitions MODEL MESHES`` prints {mesh: ...}."""

from __future__ import annotations

import json
import sys
from typing import Any

from attention_research.training.inspection import inspect
from tests.parallel.losses import config


def partition(model: str, sizes: dict[str, int]) -> dict[str, Any]:
    """The collectives that `inspect` reports. "batch_size" is passed among the axes."""
    overrides = [
        (f"training.{axis}" if axis == "batch_size" else f"parallel.mesh.{axis}", size) for axis, size in sizes.items()
    ]
    counted = inspect(config(model, 0.1).override(overrides))
    return {name: counted[name] for name in ("arrays", "state_bytes", "partition")}


if __name__ == "__main__":
    model, meshes = map(json.loads, sys.argv[1:])
    print(json.dumps({name: partition(model, sizes) for name, sizes in meshes.items()}))

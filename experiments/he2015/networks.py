"""Shared by the studies of residual networks: their config, the kinds of shortcuts, and the overrides of gpu."""

from __future__ import annotations

from typing import Any

CONFIG = "configs/images/residual.py"
#: Kind -> shortcut.
KINDS = {"plain": "none", "residual": "identity"}
#: The paper's width on full-size images, with more updates. On an accelerator blocks need not be unrolled.
LONGER: dict[str, Any] = {
    "model.width": 16, "model.features.unroll": False, "training.steps": 16_000, "training.batch_size": 128,
    "training.schedule.boundaries": (8000, 12_000),
}  # fmt: skip
GPU: dict[str, Any] = {"side": 28, **LONGER}

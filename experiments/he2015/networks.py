"""What studies of residual networks share: their config, the plain network beside the residual one, the gpu scale."""

from __future__ import annotations

from typing import Any

CONFIG = "configs/images/residual.py"
#: Kind -> shortcut.
KINDS = {"plain": "none", "residual": "identity"}
#: The paper's width on whole pictures, for longer; on an accelerator blocks need not be unrolled.
LONGER: dict[str, Any] = {
    "model.width": 16, "model.features.unroll": False, "training.steps": 16_000, "training.batch_size": 128,
    "training.schedule.boundaries": (8000, 12_000),
}  # fmt: skip
GPU: dict[str, Any] = {"side": 28, **LONGER}

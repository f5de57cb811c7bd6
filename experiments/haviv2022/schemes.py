"""Position schemes of a Transformer, as overrides of configs/language_modelling/transformer.py."""

from __future__ import annotations

from typing import Any

CONFIG = "configs/language_modelling/transformer.py"
NONE: dict[str, Any] = {"model.positions.kind": "none"}
#: The schemes of Haviv et al. 2022.
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("no positions", NONE),
    "learned": ("learned", {"model.positions.kind": "learned"}),
    "sinusoidal": ("sinusoidal", {"model.positions.kind": "sinusoidal"}),
    "alibi": ("ALiBi", {**NONE, "model.self_attention": {"kind": "alibi"}}),
}

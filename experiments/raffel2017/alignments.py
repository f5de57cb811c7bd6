"""The alignments of `raffel2017/online`."""

from typing import Any

#: row id -> (row name, alignment, overrides)
ALIGNMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "soft": ("soft", "soft", {}),
    "monotonic": ("monotonic", "monotonic", {}),
    "mocha": ("MoChA w = 4", "mocha", {"chunk_size": 4}),
    "no_noise": ("monotonic, trained without noise", "monotonic", {"noise": 0.0}),
    "parallel": ("monotonic, trained in the parallel form", "monotonic", {"mode": "parallel"}),
}

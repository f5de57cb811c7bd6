"""You only cache once, Sun et al. 2024 (arXiv 2405.05254), section 2: one set of keys and values for the upper half.

The lower half of the layers has a self-attention with a small cache (the kind `lower`). The next layer computes
K = Norm(X) W_K and V = Norm(X) W_V once, from the output X of the lower half, and all layers of the upper half attend
to them: softmax(Q_l K^T / sqrt(H)) V. In the paper the norm of K and V has its own gain; here it is the norm in front
of the first upper layer. Positions of the upper half are rotary.
"""

from __future__ import annotations

from typing import Any

from attention_research.errors import ConfigError
from attention_research.layers.attention.cross_layer import HandsOverKeys, ReadsKeys
from attention_research.layers.layouts.by_layer import path_of, some_of
from attention_research.signatures import Child, Constructor


class YOCOAttention(HandsOverKeys):
    """The first layer of the upper half. `lower` is the self-attention of the lower half.

    A stack has at least two layers. Raises ConfigError for a `lower` kind that shares parameters between layers.
    """

    fewest_layers = 2

    def __init__(self, *, lower: Child["causal_attention"], **inherited: Any):
        del lower  # it belongs to the lower half
        super().__init__(**inherited)

    @classmethod
    def by_layer(cls, attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
        """num_layers / 2 lower layers (rounded down), the layer with keys and values, and the layers above it."""
        settings, half = dict(attention.settings), num_layers // 2
        lower = settings.pop("lower")
        if hasattr(lower.target, "owned_by_stack"):
            raise ConfigError(f"{path_of(attention, 'lower')}: {lower.target.__name__} needs a stack of its own kind")
        upper = [(attention.of(ReadsKeys, settings), num_layers - half - 1)] if num_layers > half + 1 else []
        return [*some_of(attention, "lower", half, num_layers), (attention, 1), *upper]

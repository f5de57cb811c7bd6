"""xPos, Sun et al. 2022 (arXiv 2212.10554): rotary attention whose scores decay with the distance.

Each pair of features is rotated as in rotary attention and multiplied by zeta^(i / s) in queries and by zeta^(-j / s)
in keys (`kernels.xpos`). It has no parameters.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels.positions import xpos
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.attention.rotary import expect_even
from attention_research.signatures import PositiveFloat


class XPosAttention(MultiHeadAttention):
    """Scaled dot-product attention of rotated and scaled queries and keys, for decoders.

    `base` determines the lowest frequency. `scale_base` is s, the distance over which scores decay. Raises ConfigError
    if `head_width` is odd.
    """

    def __init__(self, *, base: PositiveFloat = 10000.0, scale_base: PositiveFloat = 512.0, **inherited: Any):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        self.base, self.scale_base = base, scale_base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates and scales queries and keys. The first query is at position `where.offset`."""
        query, key, value = super().prepare(query, key, value, where)
        scales = {"base": self.base, "scale_base": self.scale_base}
        return *xpos(query, key, **scales, query_offset=where.offset), value

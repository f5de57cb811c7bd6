"""Gated attention, Qiu et al. 2025 (arXiv 2505.06708), section 2.2: (softmax(Q K^T / sqrt(H)) V * sigmoid(x W_G)) W_O.

The gate multiplies the output of each head before the output projection. It is computed from the input of the query,
for every feature ("element", W_G [D, N*Hv]) or one per head ("head", [D, N]), without a bias. Qwen3-Next uses it with
rotary positions, few key heads and normalized queries and keys: `gated_rotary`.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.multi_head import NOWHERE, Where
from attention_research.layers.attention.normalized_heads import NormalizedHeads
from attention_research.layers.attention.rotary import expect_even, rotated
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive, PositiveFloat


class GatedAttention(NormalizedHeads):
    """Scaled dot-product attention with a gate for each `element` of the heads' outputs, or one for each `head`.

    `gate_by` is "element" or "head". The reported weights are those before the gate.
    """

    def __init__(
        self, *, width: Positive, gate_by: Literal["element", "head"] = "element", rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(width=width, rngs=rngs, **inherited)
        columns = self.num_heads * (self.value_head_width if gate_by == "element" else 1)
        self.gate = Linear(width, columns, use_bias=False, rngs=rngs)

    def finish(self, context: Array, where: Where = NOWHERE) -> Float[Array, "B T D"]:
        """Multiplies the contexts by their gates, and projects them."""
        assert where.x is not None, "a gate needs the input of the queries"
        gate = jax.nn.sigmoid(self.gate(where.x)).reshape(*context.shape[:3], -1)
        return super().finish(context * gate, where)


class GatedRotaryAttention(GatedAttention):
    """Gated attention with rotary positions. `base` is that of `rotary`."""

    def __init__(self, *, base: PositiveFloat = 10000.0, **inherited: Any):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        self.base = base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys."""
        return *rotated(query, key, where, self.base), value

"""KERPLE, Chi et al. 2022 (arXiv 2205.09921): softmax(Q K^T / sqrt(H) - r1 log(1 + r2 |i - j|)) V.

Each head learns r1 and r2. They are softplus of the parameters, and start uniform in (0, 2) and (0, 1); the released
code clamps the parameters at 0.01 instead. In the power form, r1 |i - j|^r2, r2 is 2 sigmoid of the parameter, since
the paper wants r2 of at most 2. In an encoder the bias is symmetric.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.positions import kerple_distance_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where


class KerpleAttention(MultiHeadAttention):
    """Scaled dot-product attention with a learned kernel of the distance.

    `form` is that of the kernel, log or power. The power form with r2 = 1 is ALiBi.
    """

    def __init__(self, *, form: Literal["log", "power"] = "log", rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.form = form
        draw = lambda most: jax.random.uniform(rngs.params(), (self.num_heads,), jnp.float32, 0.01, most)
        r1, r2 = draw(2.0), draw(1.0)
        self.r1_scale = nnx.Param(jnp.log(jnp.expm1(r1)))
        self.r2_scale = nnx.Param(jnp.log(jnp.expm1(r2)) if form == "log" else jnp.log(r2 / (2 - r2)))

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "N L"]:
        """-r1 log(1 + r2 |i - j|), or -r1 |i - j|^r2."""
        r1, r2 = jax.nn.softplus(self.r1_scale[...]), self.r2_scale[...]
        r2 = jax.nn.softplus(r2) if self.form == "log" else 2 * jax.nn.sigmoid(r2)
        return kerple_distance_bias(r1, r2, query_length, key_length, form=self.form, query_offset=where.offset)

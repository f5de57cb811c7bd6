"""Learned temperature, Lee, Lee & Song 2021 (arXiv 2112.13492), locality self-attention: softmax(Q K^T / tau_n) V.

Each head learns its temperature tau, which is initialized to sqrt(H). The released code learns 1 / tau; here the
parameter is tau, in the units of the logits. The paper also masks the diagonal: use `mask` for this.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def temperature_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    temperature: Float[Array, "N"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` with the logits q k / temperature_n + bias.

    Temperatures are nonzero and have gradients. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.array([0.0, 1.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(temperature_attention(x, x, value, jnp.array([0.1]))[0, :, 0])  # a low temperature sharpens
    [[0.5 0.5]
     [0.  1. ]]
    """
    check_shapes(query=(query, "B T N H"), temperature=(temperature, "N"))
    query = divided(query, temperature)
    return dot_product_attention(
        query, key, value, bias, mask, scale=1.0, is_causal=is_causal, local_window_size=local_window_size,
        implementation=implementation,
    )  # fmt: skip


def divided(query: Float[Array, "B T N H"], temperature: Float[Array, "N"]) -> Float[Array, "B T N H"]:
    """The queries divided by the temperature of their head, in float32.

    >>> print(divided(jnp.ones((1, 1, 2, 1)), jnp.array([2.0, 4.0]))[0, 0, :, 0])
    [0.5  0.25]
    """
    dtype = accumulator(query.dtype)
    return (query.astype(dtype) / temperature.astype(dtype)[:, None]).astype(query.dtype)

"""Dynamic convolution, Wu et al. 2019 (arXiv 1901.10430), section 4: y_ic = sum_w softmax(W^Q_h X_i)_w X_(i+w-left),c.

Each position predicts its own kernel from its input alone. Taps, heads, padding and alignment are those of lightweight
convolution. In the paper, f is linear without a bias. The released Mesh code of Narang et al. 2021 predicts one kernel
per channel (N = D here, with a weight [D W D] of D^2 W numbers), with a bias.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.no_dot_product.lightweight_convolution import advance, convolve
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def dynamic_convolution(
    x: Float[Array, "B T D"],
    weight: Float[Array, "N W D"],
    bias: Float[Array, "N W"] | None = None,
    *,
    mask: Bool[Array, "B T"] | None = None,
    is_causal: bool = False,
) -> Float[Array, "B T D"]:
    """The convolution of x with the kernels softmax(x_i weight + bias) over W.

    It takes O(T W D) time and O(T (W N + D)) memory. `mask` is True at non-padding positions; padding counts as 0. A
    window of only padding gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, weight = jnp.arange(1.0, 5.0).reshape(1, 4, 1), jnp.zeros((1, 3, 1))  # equal weights for 3 positions
    >>> print(dynamic_convolution(x, weight, is_causal=True).ravel())  # positions before the start count as 0
    [0.33 1.   2.   3.  ]
    """
    W = check_shapes(x=(x, "B T D"), mask=(mask, "B T"), weight=(weight, "N W D"), bias=(bias, "N W"))["W"]
    return convolve(x, _kernels(x, weight, bias), W - 1 if is_causal else W // 2, mask)


def dynamic_convolution_step(
    state: Float[Array, "B P D"],
    x: Float[Array, "B D"],
    weight: Float[Array, "N W D"],
    bias: Float[Array, "N W"] | None = None,
) -> tuple[Float[Array, "B P D"], Float[Array, "B D"]]:
    """Decodes one position of the causal form. Returns (the last P = W - 1 inputs, the output).

    The initial state is zeros. Pass a padding position as 0. Raises ValueError naming the argument and the axis.

    >>> state, weight = jnp.zeros((1, 2, 1)), jnp.zeros((1, 3, 1))  # equal weights for the last 3 positions
    >>> for number in (1.0, 2.0, 6.0):
    ...     state, y = dynamic_convolution_step(state, jnp.full((1, 1), number), weight)
    >>> print(y)
    [[3.]]
    """
    check_shapes(
        x=(x, "B D"), weight=(weight, "N W D"), bias=(bias, "N W"), state=(state, f"B {weight.shape[1] - 1} D")
    )
    return advance(state, x, _kernels(x[:, None], weight, bias))


def _kernels(x: Array, weight: Array, bias: Array | None) -> Float[Array, "B T N W"]:
    logits = einsum("BTD,NWD->BTNW", x, weight.astype(x.dtype))
    return jax.nn.softmax(logits if bias is None else logits + bias.astype(logits.dtype), axis=-1)

"""Mixture of Synthesizers, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(sum_m alpha_m S_m(X)) G(X).

The alphas are learned and sum to 1; here they are a softmax. The paper's mixture with dot products has two parts and a
pair of alphas per head. The released Mesh code has one number per layer, (1 - sigmoid(a)) q k^T + sigmoid(a) R ("plus
alpha", with a initialized to 0, so that both weights are 1/2), which is the softmax of (0, a). Without alpha, it has
the sum q k^T + R ("plus"). The released code does not divide q k^T by sqrt(H), because its initialization includes this
factor: use `scale=1.0`.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def mixture_scores(alpha: Float[Array, "M"], *scores: Float[Array, "#B N T S"]) -> Float[Array, "B N T S"]:
    """sum_m softmax(alpha)_m scores_m, in float32, for `synthesizer_attention`. Raises ValueError naming the axis.

    >>> one = jnp.ones((1, 1, 2, 3))
    >>> mixture_scores(jnp.array([0.0, 0.0]), one, 3 * one)[0, 0, 0].tolist()  # equal alphas: the mean
    [2.0, 2.0, 2.0]
    """
    if alpha.shape != (len(scores),):
        raise ValueError(f"alpha: axis M of [M]: expected the {len(scores)} scores, got shape {list(alpha.shape)}")
    check_shapes(**{f"scores_{number}": (one, "#B N T S") for number, one in enumerate(scores)})
    dtype = accumulator(alpha.dtype)
    weights = jax.nn.softmax(alpha.astype(dtype))
    parts = [weights[number] * one.astype(dtype) for number, one in enumerate(scores)]
    return sum(parts[1:], parts[0])


def mixture_synthesizer_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    scores: Float[Array, "#B #N #T #S"],
    alpha: Float[Array, "#N"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """softmax((1 - sigmoid(alpha)) q k^T scale + sigmoid(alpha) scores) value. With `alpha` None, the scores are added.

    `scores` are the scores of a dense or random Synthesizer. `alpha` is [N] (one per head, as in the paper) or [1] (as
    in the released code). Other arguments are those of `dot_product_attention`. Raises ValueError naming the argument
    and the axis.

    >>> x, value = jnp.zeros((1, 3, 1, 2)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> scores = jnp.array([0.0, 0.0, 20.0]).reshape(1, 1, 1, 3)  # learned scores, added to the equal dot products
    >>> print(mixture_synthesizer_attention(x, x, value, scores)[0, :, 0])
    [[0. 0. 1.]
     [0. 0. 1.]
     [0. 0. 1.]]
    """
    check_shapes(
        query=(query, "B T N H"),
        key=(key, "B S K H"),
        value=(value, "B S K Hv"),
        scores=(scores, "#B #N #T #S"),
        alpha=(alpha, "#N"),
    )
    if alpha is not None:
        share = jax.nn.sigmoid(alpha.astype(accumulator(query.dtype)))
        query = (query.astype(share.dtype) * (1 - share)[:, None]).astype(query.dtype)
        scores = share[:, None, None] * scores.astype(share.dtype)
    return dot_product_attention(
        query, key, value, scores, mask, scale=scale, is_causal=is_causal, implementation=implementation
    )

"""Performer FAVOR+, Choromanski et al. 2021 (arXiv 2009.14794), lemma 1 and section 2.4:
phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j)) with phi(x) = exp(W x - |x|^2 / 2) / sqrt(M).

E[phi(q) . phi(k)] = exp(q . k) if the rows of W are from N(0, 1), so that this estimates softmax attention without its
[T S] matrix. q and k are first multiplied by the square root of the scale, H^(-1/4). The rows of W form orthogonal
blocks of H rows.

Features are stabilized as exp(W x - |x|^2 / 2 - l). For a query, l is the largest exponent, which cancels. For a key, l
is returned with the features, and sums are relative to the largest l so far. The released code subtracts the largest
exponent of *all* keys instead, so that a large future key suppresses the past. The released code also adds 1e-6 to
every feature; here nothing is added. The features [W; -W] give the hyperbolic estimator of the same lemma, which has a
lower variance.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.efficient.feature_attention import (
    FeatureSums,
    check_heads,
    feature_attention,
    feature_step,
)
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def orthogonal_features(
    key: PRNGKeyArray, num_features: int, width: int, *, norms: str = "chi", dtype: DTypeLike = jnp.float32
) -> Float[Array, "M H"]:
    """Draws W [num_features width]: blocks of `width` rows, orthogonal within a block, with uniform row directions.

    With `norms` "chi", rows have the norms of Gaussian rows, so that each row is N(0, 1) and the estimate is unbiased.
    With "constant", the norm is sqrt(width), which gives the regularized softmax kernel. The released code uses the Q
    of Householder's QR decomposition, in which the signs of rows are not random. Here the signs are corrected (Haar
    measure), because the estimate is biased otherwise.

    >>> features = orthogonal_features(jax.random.key(0), 4, 4)
    >>> print(abs((features @ features.T)) > 0.01)  # orthogonal to each other
    [[ True False False False]
     [False  True False False]
     [False False  True False]
     [False False False  True]]
    """
    if norms not in ("chi", "constant"):
        raise ValueError(f"norms: expected 'chi' or 'constant', got {norms!r}")
    directions, lengths = jax.random.split(key)
    blocks = math.ceil(num_features / width)
    wide = accumulator(jnp.dtype(dtype))
    q, r = jnp.linalg.qr(jax.random.normal(directions, (blocks, width, width), wide))
    signs = jnp.where(jnp.diagonal(r, axis1=1, axis2=2) < 0, -1, 1).astype(q.dtype)
    rows = (q * signs[:, None, :]).swapaxes(1, 2).reshape(blocks * width, width)[:num_features]
    if norms == "constant":
        return (rows * math.sqrt(width)).astype(dtype)
    norms_of_rows = jnp.linalg.norm(jax.random.normal(lengths, (num_features, width), wide), axis=1, keepdims=True)
    return (rows * norms_of_rows).astype(dtype)


def positive_features(
    x: Float[Array, "*B H"], features: Float[Array, "M H"]
) -> tuple[Float[Array, "*B M"], Float[Array, "*B"]]:
    """Returns (phi, l), where exp(W x - |x|^2 / 2) / sqrt(M) = phi exp(l), in float32.

    The largest entry of phi is 1 / sqrt(M). l has no gradient, because it cancels in the attention.

    >>> phi, shift = positive_features(jnp.ones((3, 4)), jnp.ones((6, 4)))
    >>> phi.shape, shift.shape, bool((phi > 0).all())
    ((3, 6), (3,), True)
    """
    exponents = einsum("...H,MH->...M", x, features.astype(x.dtype))
    x = x.astype(exponents.dtype)
    exponents = exponents - 0.5 * jnp.sum(x * x, axis=-1, keepdims=True)
    largest = lax.stop_gradient(jnp.max(exponents, axis=-1, keepdims=True))
    return jnp.exp(exponents - largest) / math.sqrt(features.shape[0]), largest[..., 0]


def performer_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    features: Float[Array, "M H"],
    *,
    mask: Bool[Array, "B S"] | None = None,
    is_causal: bool = False,
    scale: Scale = None,
    chunk_size: int = 128,
) -> Float[Array, "B T N Hv"]:
    """Performer attention with time O(T M Hv) and memory O(T M).

    The causal form adds the matrix of one chunk, and T M Hv / chunk_size memory for the gradient; T must equal S, and
    query i attends to keys 0 to i. `features` is W from `orthogonal_features`, which may be redrawn at any time. `mask`
    is True at non-padding keys. A query with no visible key gives 0 with gradient 0, and so does a query that has no
    feature in common with its keys in float32 (norms of about 50 and more). K divides N. `scale` None means
    1 / sqrt(H). Raises ValueError naming the argument and the axis.

    >>> key = jax.random.key(0)
    >>> x, value = jax.random.normal(key, (1, 5, 1, 4)) / 2, jnp.eye(5)[None, :, None]
    >>> context = performer_attention(x, x, value, orthogonal_features(key, 1024, 4))
    >>> exact = jax.nn.softmax(jnp.einsum("BTNH,BSNH->BNTS", x, x) / 2)
    >>> bool(abs(context[0, :, 0] - exact[0, 0]).max() < 0.05)  # the weights, from 1,024 random features
    True
    """
    check_heads(query, key, value, mask, is_causal, chunk_size)
    root = _root(query, features, scale)
    if mask is not None:
        key = jnp.where(mask[:, :, None, None], key, jnp.zeros_like(key))
    query_features, _ = positive_features(_scaled(query, root), features)
    key_features, log_scale = positive_features(_scaled(key, root), features)
    context = feature_attention(query_features, key_features, log_scale, value, mask, is_causal, chunk_size)
    return context.astype(query.dtype)


def performer_attention_step(
    sums: FeatureSums,
    query: Float[Array, "B N H"],
    key: Float[Array, "B K H"],
    value: Float[Array, "B K Hv"],
    features: Float[Array, "M H"],
    *,
    mask: Bool[Array, "B"] | None = None,
    scale: Scale = None,
) -> tuple[FeatureSums, Float[Array, "B N Hv"]]:
    """Decodes one position of the causal form. `no_sums(B, K, M, Hv)` is the initial state.

    >>> from attention_research.kernels.efficient import no_sums
    >>> features = orthogonal_features(jax.random.key(0), 6, 4)
    >>> sums, token = no_sums(1, 2, 6, 4), jnp.ones((1, 2, 4))
    >>> sums, context = performer_attention_step(sums, token, token, token, features)
    >>> print(context[0, 0])  # the only value so far
    [1. 1. 1. 1.]
    """
    check_shapes(query=(query, "B N H"), key=(key, "B K H"), value=(value, "B K Hv"), mask=(mask, "B"))
    root = _root(query, features, scale)
    if mask is not None:
        key = jnp.where(mask[:, None, None], key, jnp.zeros_like(key))
    query_features, _ = positive_features(_scaled(query, root), features)
    key_features, log_scale = positive_features(_scaled(key, root), features)
    sums, context = feature_step(sums, query_features, key_features, log_scale, value, mask)
    return sums, context.astype(query.dtype)


def _root(query: Array, features: Array, scale: Scale) -> float | Array:
    """The square root of the scale, which multiplies queries and keys."""
    if features.ndim != 2 or features.shape[1] != query.shape[-1]:
        raise ValueError(f"features: expected [M H] with H = {query.shape[-1]}, got shape {list(features.shape)}")
    if isinstance(scale, jax.Array):
        return jnp.sqrt(scale)
    if scale is not None and scale <= 0:
        raise ValueError(f"scale: expected more than 0, got {scale}")
    return float(query.shape[-1] ** -0.25 if scale is None else scale**0.5)


def _scaled(x: Array, root: float | Array) -> Array:
    """Scales x in the accumulator's dtype, so that exponents are not rounded."""
    return x.astype(accumulator(x.dtype)) * root

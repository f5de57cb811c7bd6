"""Products of rows and columns with the decay between their positions, for the positions of a chunk.

A log decay g_t <= 0 is a number per head, or a number per channel of the key. The state is multiplied by e^{g_t} before
position t writes. G is the inclusive cumulative sum of g over the chunk. Decays between two positions are always
computed as the exponential of a difference of G that is at most 0. The factors e^{G_t} e^{-G_i} would overflow: a
position can decay the state by e^{-80}.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

#: Pairs of positions in blocks of this size get one exponential per channel.
BLOCK = 4


def decay_products(
    rows: Float[Array, "*B C H"],
    reach: Float[Array, "*B C"] | Float[Array, "*B C H"] | None,
    columns: Float[Array, "*B C H"],
    total: Float[Array, "*B C"] | Float[Array, "*B C H"] | None,
    keep: Bool[Array, "*#B C C"],
    *,
    strict: bool = False,
) -> Float[Array, "*B C C"]:
    """sum_h rows_th columns_ih exp(reach_t - total_i) where `keep`, otherwise 0.

    `keep` is False for i > t, and if `strict` for i = t. reach_t - total_i is at most 0 for the other pairs. Without
    decays, both are None.
    """
    if total is None or reach is None:
        products = jnp.einsum("...th,...ih->...ti", rows, columns)
    elif total.ndim < columns.ndim:
        products = jnp.einsum("...th,...ih->...ti", rows, columns)
        return products * _exponential(reach[..., :, None] - total[..., None, :], keep)
    else:
        products = _by_channel(rows, reach, columns, total, strict)
    return jnp.where(keep, products, jnp.zeros_like(products))


def _by_channel(rows: Array, reach: Array, columns: Array, total: Array, strict: bool) -> Array:
    """The products for decays by channel, without masks. C is a power of two.

    Two halves of a block are joined at the decay up to the end of the first half: exp(reach_t - end) and
    exp(end - total_i) are both at most 1, and their product is a matrix product. A chunk of C positions therefore needs
    C (BLOCK + log2(C / BLOCK)) exponentials per channel instead of C^2.
    """
    *lead, size, width = rows.shape
    block = min(BLOCK, size)
    split = lambda x, *shape: x.reshape(*lead, *shape, x.shape[-1])
    r, a, c, g = (split(x, size // block, block) for x in (rows, reach, columns, total))
    lower = np.tril(np.ones((block, block), bool), -1 if strict else 0)[..., None]
    between = _exponential(a[..., :, None, :] - g[..., None, :, :], lower)
    products = jnp.sum(r[..., :, None, :] * c[..., None, :, :] * between, axis=-1)
    while block < size:
        r, a, c, g = (split(x, size // (2 * block), 2, block) for x in (rows, reach, columns, total))
        end = g[..., 0, -1:, :]
        later, earlier = (
            r[..., 1, :, :] * jnp.exp(a[..., 1, :, :] - end),
            c[..., 0, :, :] * jnp.exp(end - g[..., 0, :, :]),
        )
        joined = jnp.einsum("...th,...ih->...ti", later, earlier)
        halves = products.reshape(*lead, size // (2 * block), 2, block, block)
        first = jnp.concatenate([halves[..., 0, :, :], jnp.zeros_like(joined)], axis=-1)
        second = jnp.concatenate([joined, halves[..., 1, :, :]], axis=-1)
        products, block = jnp.concatenate([first, second], axis=-2), 2 * block
    return products.reshape(*lead, size, size)


def _exponential(x: Array, keep: Array | np.ndarray) -> Array:
    """exp(x) where `keep`, otherwise 0. Exponents that are not kept may be large."""
    return jnp.exp(jnp.where(keep, x, jnp.full_like(x, -jnp.inf)))


def decayed(x: Float[Array, "*B C H"], log: Float[Array, "*B C"] | Float[Array, "*B C H"] | None) -> Array:
    """x exp(log)."""
    if log is None:
        return x
    return x * jnp.exp(log if log.ndim == x.ndim else log[..., None])

"""Products of rows and columns with the decay between their positions, for the positions of a chunk.

A log decay g_t <= 0 is a number per head, or a number per channel of the key. The state is multiplied by e^{g_t} before
position t writes. G is the inclusive cumulative sum of g over the chunk. Decays between two positions are always
computed as the exponential of a difference of G that is at most 0. The factors e^{G_t} e^{-G_i} would overflow: a
position can decay the state by e^{-80}.

The gradient does not pass through these exponentials. All of them are e^{G_t} on a row times e^{-G_i} on a column, so
that dG_t = row_t drow_t and dG_i = -column_i dcolumn_i, for whatever is computed from them. `lifted` gives rows and
columns this derivative, and the decays are constants. This replaces sums over pairs of positions by sums over channels.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

#: Pairs of positions in blocks of this size get one exponential per channel.
BLOCK = 4

#: Cumulative sums by channel are computed in blocks of this size.
SUM = 8


class Decays(NamedTuple):
    """The sums of log decays of the positions of a chunk, [*B C] or by channel [*B C H]. They have no gradient.

    `total` is G, `early` is G - g (None unless some rows read the state before their position), and `negative` is -G.
    XLA's CPU backend vectorizes the exponential of a sum of two arrays, but not that of a difference of two elements of
    one array. `marks` [*B C/BLOCK H] is G at the last position of each block, None for decays of heads.
    """

    total: Float[Array, "*B C"] | Float[Array, "*B C H"]
    early: Float[Array, "*B C"] | Float[Array, "*B C H"] | None
    negative: Float[Array, "*B C"] | Float[Array, "*B C H"]
    marks: Float[Array, "*B M H"] | None


def cumulative(
    log_decay: Float[Array, "B T N"] | Float[Array, "B T N H"], size: int
) -> Float[Array, "B T N"] | Float[Array, "B T N H"]:
    """The inclusive sums over chunks of `size` positions. If decays are by channel, `size` is a power of two.

    Sums by channel are computed in blocks and then over blocks, as matrix products. `jnp.cumsum` takes twice the time.
    """
    B, T, N, *channel = log_decay.shape
    if not channel:
        return jnp.cumsum(log_decay.reshape(B, T // size, size, N), axis=2).reshape(log_decay.shape)
    block = min(SUM, size)

    def sums(x: Array, exclusive: int) -> Array:
        """The sums over the axis before the last one, without the position itself if `exclusive`."""
        lower = np.tril(np.ones((x.shape[-2], x.shape[-2])), -exclusive)
        lower = jnp.broadcast_to(jnp.asarray(lower, x.dtype), (*x.shape[:-2], *lower.shape))
        return jnp.einsum("...ti,...ih->...th", lower, x, precision=lax.Precision.HIGHEST)

    within = sums(log_decay.reshape(B, T // size, size // block, block, N * channel[0]), 0)
    return (within + sums(within[..., -1, :], 1)[..., None, :]).reshape(log_decay.shape)


def decays_of(total: Array, early: Array | None, by_channel: bool) -> Decays:
    """The decays with these sums."""
    total, early = lax.stop_gradient((total, early))
    block = min(BLOCK, total.shape[-2])
    return Decays(total, early, -total, total[..., block - 1 :: block, :] if by_channel else None)


def lifted(x: Float[Array, "*B C H"], log: Array | None) -> Float[Array, "*B C H"]:
    """x, with the derivatives of x e^log at a constant log: the derivative for log is x times that for x."""
    if log is None:
        return x
    change = jnp.exp(log - lax.stop_gradient(log))
    return x * change if log.ndim == x.ndim else times(x, change)


def times(x: Float[Array, "*B C H"], factor: Float[Array, "*B C"]) -> Float[Array, "*B C H"]:
    """x times a number for each row.

    The gradient of the factor is a product with ones, which XLA's CPU backend computes in less time than a sum.
    """
    ones = jnp.ones(x.shape[-1:], x.dtype)
    return x * jnp.einsum("...t,h->...th", factor, ones, precision=lax.Precision.HIGHEST)


def decay_products(
    rows: Float[Array, "*B C H"],
    reach: Float[Array, "*B C"] | Float[Array, "*B C H"] | None,
    columns: Float[Array, "*B C H"],
    decays: Decays | None,
    keep: Bool[Array, "*#B C C"],
    *,
    strict: bool = False,
) -> Float[Array, "*B C C"]:
    """sum_h rows_th columns_ih exp(reach_t - total_i) where `keep`, otherwise 0.

    `keep` is False for i > t, and if `strict` for i = t. reach_t - total_i is at most 0 for the other pairs. Without
    decays, both are None.
    """
    if decays is None or reach is None:
        products = jnp.einsum("...th,...ih->...ti", rows, columns)
    elif decays.marks is None:
        products = jnp.einsum("...th,...ih->...ti", rows, columns)
        return products * _exponential(reach[..., :, None] + decays.negative[..., None, :], keep)
    else:
        products = _by_channel(rows, reach, columns, decays, strict)
    return jnp.where(keep, products, jnp.zeros_like(products))


def _by_channel(rows: Array, reach: Array, columns: Array, decays: Decays, strict: bool) -> Array:
    """The products for decays by channel, without masks. C is a power of two.

    Two halves of a block are joined at the decay up to the end of the first half: exp(reach_t - end) and
    exp(end - total_i) are both at most 1, and their product is a matrix product. A chunk of C positions therefore needs
    C (BLOCK + log2(C / BLOCK)) exponentials per channel instead of C^2.
    """
    *lead, size, _ = rows.shape
    block = min(BLOCK, size)
    split = lambda x, *shape: x.reshape(*lead, *shape, x.shape[-1])
    r, a, c, g = (split(x, size // block, block) for x in (rows, reach, columns, decays.negative))
    lower = np.tril(np.ones((block, block), bool), -1 if strict else 0)[..., None]
    between = _exponential(a[..., :, None, :] + g[..., None, :, :], lower)
    row = lambda t: jnp.einsum("...h,...ih->...i", r[..., t, :], c * between[..., t, :, :])
    products = jnp.stack([row(t) for t in range(block)], axis=-2)
    while block < size:
        r, a, c, g = (split(x, size // (2 * block), 2, block) for x in (rows, reach, columns, decays.negative))
        end = split(decays.marks, size // (2 * block), 2, block // BLOCK)[..., 0, -1:, :]
        later = r[..., 1, :, :] * jnp.exp(a[..., 1, :, :] - end)
        earlier = c[..., 0, :, :] * jnp.exp(end + g[..., 0, :, :])
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

"""The inverse of unit lower-triangular matrices by blocks, from products of matrices alone.

The state kernels and PaTH attention solve such a system in every chunk. `jax.scipy.linalg.solve_triangular` calls
LAPACK on a CPU, and jaxlib 0.10.2 may then wait forever: two batched solves that run at the same time each take a
thread of the pool and wait for the other threads of the pool. A program on two cores stops at its first step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Products of matrices up to this size are sums of outer products, because XLA's CPU backend takes longer to call a
#: matrix product.
SMALL = 4


def unit_lower_inverse(strict: Float[Array, "*B C C"]) -> Float[Array, "*B C C"]:
    """(I + A)^-1 for A with zeros on and above its diagonal.

    Blocks of twice the size are joined, log2(C) times: the inverse of [[L, 0], [M, N]] is [[L^-1, 0], [-N^-1 M L^-1,
    N^-1]]. As in substitution, and unlike in the product (I - A)(I + A^2)(I + A^4)..., no power of A is computed.

    >>> unit_lower_inverse(jnp.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])).tolist()
    [[1.0, 0.0, 0.0], [-2.0, 1.0, 0.0], [6.0, -3.0, 1.0]]
    """
    *batch, C, _ = strict.shape
    size = 1 << max(C - 1, 0).bit_length()
    rest = [(0, 0)] * len(batch) + [(0, size - C)] * 2
    padded = jnp.pad(strict, rest)
    found = jnp.ones((*batch, size, 1, 1), strict.dtype)
    width = 1
    while width < size:
        count = size // (2 * width)
        blocks = padded.reshape(*batch, count, 2 * width, count, 2 * width)
        below = jnp.moveaxis(jnp.diagonal(blocks, axis1=-4, axis2=-2), -1, -3)[..., width:, :width]
        first, second = found[..., 0::2, :, :], found[..., 1::2, :, :]
        product = _small_product if width <= SMALL else jnp.matmul
        corner = -product(product(second, below), first)
        above = jnp.concatenate([first, jnp.zeros_like(first)], axis=-1)
        found = jnp.concatenate([above, jnp.concatenate([corner, second], axis=-1)], axis=-2)
        width *= 2
    return found[..., 0, :C, :C]


def _small_product(a: Float[Array, "*B I J"], b: Float[Array, "*B J K"]) -> Float[Array, "*B I K"]:
    """The product of two small matrices."""
    return sum(
        (a[..., :, j : j + 1] * b[..., j : j + 1, :] for j in range(1, a.shape[-1])), a[..., :, :1] * b[..., :1, :]
    )


@jax.custom_jvp
def unit_lower_solve(strict: Float[Array, "*B C C"], right: Float[Array, "*B C V"]) -> Float[Array, "*B C V"]:
    """X of (I + A) X = right.

    >>> unit_lower_solve(jnp.array([[0.0, 0.0], [2.0, 0.0]]), jnp.array([[1.0], [5.0]])).tolist()
    [[1.0], [3.0]]
    """
    return unit_lower_inverse(strict) @ right


@unit_lower_solve.defjvp
def _solve_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """dX = (I + A)^-1 (dright - dA X). Its transpose takes three products, and not those of every block."""
    (strict, right), (dstrict, dright) = primals, tangents
    inverse = unit_lower_inverse(strict)
    found = inverse @ right
    return found, inverse @ (dright - dstrict @ found)

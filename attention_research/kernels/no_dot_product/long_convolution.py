"""Long convolution, Poli et al. 2023 (arXiv 2302.10866), section 3.1: y_tc = sum_(s <= t) h_(t-s)c x_sc +
d_c x_tc.

Each channel has a kernel h [T] as long as the sequence. The paper multiplies the spectra of x and h. A fast Fourier
transform mixes all positions, and its rounding errors reach earlier ones: the gradient from the future is small, but
not zero, and an infinite value anywhere spoils the row. Here the sum is computed directly, in O(T^2 D) time and O(T D)
memory, so that later positions never enter it.

The W = `block_size` nearest positions are added one after the other. The others are multiplied by blocks: the kernels
between two blocks m blocks apart are a Toeplitz matrix [W W] for each channel, the same for all pairs of such blocks.
In packed rows, two blocks have at most one example in common. It is the last of the earlier and the first of the later
block.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.no_dot_product.lightweight_convolution import convolve
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers


def long_convolution(
    x: Float[Array, "B T D"],
    kernel: Float[Array, "T D"],
    skip: Float[Array, "D"] | None = None,
    *,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    block_size: int = 16,
) -> Float[Array, "B T D"]:
    """The causal convolution of x, in x's dtype, with sums in float32.

    `skip` is d, by default 0. `mask` is True at real positions; padding counts as 0. `reset` is True where an example
    begins: it does not see the positions before it. Raises ValueError naming the argument and the axis.

    >>> x, kernel = jnp.array([1.0, 2.0, 4.0]).reshape(1, 3, 1), jnp.array([[1.0], [0.1], [0.01]])
    >>> print(long_convolution(x, kernel).ravel())
    [1.   2.1  4.21]
    """
    B, T, D = check_shapes(
        x=(x, "B T D"), kernel=(kernel, "T D"), skip=(skip, "D"), mask=(mask, "B T"), reset=(reset, "B T")
    ).values()
    expect_numbers("block_size", T=T)
    if block_size < 1:
        raise ValueError(f"block_size: expected at least 1, got {block_size}")
    if T == 0:
        return jnp.zeros_like(x)
    wide, W = accumulator(x.dtype), min(block_size, T)
    x = x if mask is None else jnp.where(mask[..., None], x, jnp.zeros_like(x))
    segments = None if reset is None else jnp.cumsum(reset, axis=1, dtype=jnp.int32)
    kernel = kernel.astype(wide)
    y = convolve(x.astype(wide), kernel[:W][::-1].T[None, None], W - 1, _same(segments, W))
    if T > W:
        y += _from_far(x, kernel, segments, W)
    if skip is not None:
        y += skip.astype(wide) * x.astype(wide)
    return y.astype(x.dtype)


def long_convolution_step(
    inputs: Float[Array, "B S D"],
    x: Float[Array, "B D"],
    kernel: Float[Array, "S D"],
    index: Int[Array, ""],
    skip: Float[Array, "D"] | None = None,
) -> tuple[Float[Array, "B S D"], Float[Array, "B D"]]:
    """One position of `long_convolution`. Returns (the inputs up to it, the output). It takes O(S D) time.

    `inputs` holds those before position `index`, and zeros at first. Pass a padding position as 0.

    >>> inputs, kernel = jnp.zeros((1, 3, 1)), jnp.array([[1.0], [0.1], [0.01]])
    >>> for index, number in enumerate((1.0, 2.0, 4.0)):
    ...     inputs, y = long_convolution_step(inputs, jnp.full((1, 1), number), kernel, jnp.int32(index))
    >>> print(y)
    [[4.21]]
    """
    check_shapes(inputs=(inputs, "B S D"), x=(x, "B D"), kernel=(kernel, "S D"), skip=(skip, "D"))
    wide = accumulator(x.dtype)
    inputs = lax.dynamic_update_slice_in_dim(inputs, x[:, None].astype(inputs.dtype), index, 1)
    distance = index - jnp.arange(inputs.shape[1], dtype=jnp.int32)
    kernel = jnp.take(kernel, distance, axis=0, mode="clip").astype(wide)
    kernel = jnp.where(distance[:, None] >= 0, kernel, jnp.zeros_like(kernel))
    y = jnp.sum(kernel * inputs.astype(wide), axis=1)
    y = y if skip is None else y + skip.astype(wide) * x.astype(wide)
    return inputs, y.astype(x.dtype)


def _same(segments: Int[Array, "B T"] | None, W: int) -> Bool[Array, "B T W"] | None:
    """Whether position t and position t - W + 1 + w are of the same example."""
    if segments is None:
        return None
    padded = jnp.pad(segments, [(0, 0), (W - 1, 0)], constant_values=-1)
    return jnp.stack([padded[:, tap : tap + segments.shape[1]] == segments for tap in range(W)], axis=-1)


def _from_far(
    x: Float[Array, "B T D"], kernel: Float[Array, "T D"], segments: Int[Array, "B T"] | None, W: int
) -> Float[Array, "B T D"]:
    """The sum over positions at a distance of W or more."""
    B, T, D = x.shape
    count = -(-T // W)
    kernel = jnp.pad(kernel[W:], [(W, (count + 1) * W - T), (0, 0)]).T  # distances below W give 0
    x = jnp.pad(x, [(0, 0), (0, count * W - T), (0, 0)]).reshape(B, count, W, D).transpose(3, 1, 0, 2)  # [D n B W]
    apart = W + np.arange(W)[:, None] - np.arange(W)
    first = last = jnp.zeros((count, B), jnp.int32)
    begins = None
    if segments is not None:
        segments = jnp.pad(segments, [(0, 0), (0, count * W - T)], mode="edge").reshape(B, count, W).swapaxes(0, 1)
        first, last = segments[..., 0], segments[..., -1]
        x = jnp.where(segments == last[..., None], x, jnp.zeros_like(x))
        begins = segments == first[..., None]
    x, last = (
        jnp.pad(one, [(count if axis == at else 0, 0) for axis in range(one.ndim)]) for at, one in ((1, x), (0, last))
    )

    @jax.checkpoint
    def from_blocks(x: Array, kernel: Array, m: Array) -> Array:
        """What the blocks get from those m blocks before."""
        window = lax.dynamic_slice_in_dim(kernel, (m - 1) * W, 2 * W, 1)
        earlier = lax.dynamic_slice_in_dim(x, count - m, count, 1)
        if segments is not None:
            same = lax.dynamic_slice_in_dim(last, count - m, count, 0) == first
            earlier = jnp.where(same[..., None], earlier, jnp.zeros_like(earlier))
        return einsum("DnBj,Dij->DnBi", earlier, window[:, apart].astype(x.dtype))

    def add(y: Array, m: Array) -> tuple[Array, None]:
        return y + from_blocks(x, kernel, m), None

    y = jnp.zeros((D, count, B, W), kernel.dtype)
    y, _ = lax.scan(add, y, jnp.arange(1, count, dtype=jnp.int32))
    y = y if begins is None else jnp.where(begins, y, jnp.zeros_like(y))
    return y.transpose(2, 1, 3, 0).reshape(B, count * W, D)[:, :T]

"""Short causal convolutions over single channels, as before the state of Mamba (Gu & Dao 2023, arXiv 2312.00752),
section 3.4: y_tc = sum_w K_cw x_(t+w-W+1),c.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.gated_convolution import at_taps
from attention_research.layers.attention.where import Mask


def visible_taps(mask: Mask, kernel_width: int) -> Bool[Array, "#B T W"]:
    """Whether position t may read its taps t - W + 1 to t, in packed rows."""
    return at_taps(mask, kernel_width, kernel_width - 1)


class ShortConvolution(nnx.Module):
    """One filter of W taps for each channel [C W], from U(-1/sqrt(W), 1/sqrt(W)), optionally with a bias [C].

    Padding enters as 0. In packed rows, filters do not read across examples.
    """

    def __init__(self, channels: int, kernel_width: int, *, use_bias: bool = False, rngs: nnx.Rngs):
        self.kernel_width = kernel_width
        bound, shape = kernel_width**-0.5, (channels, kernel_width)
        self.filter_kernel = nnx.Param(jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound))
        self.bias = nnx.Param(jnp.zeros((channels,), jnp.float32)) if use_bias else None

    def start(self, batch: int, dtype: jnp.dtype) -> dict[str, Array]:
        """The inputs before the first position, zeros."""
        return {"inputs": jnp.zeros((batch, self.kernel_width - 1, self.filter_kernel.shape[0]), dtype)}

    def __call__(
        self,
        x: Float[Array, "B T C"],
        taps: dict[str, Array],
        real: Bool[Array, "B T"] | None,
        visible: Bool[Array, "B T W"] | None,
    ) -> tuple[Float[Array, "B T C"], dict[str, Array]]:
        """(y, the last W - 1 inputs). `taps` are the inputs before x."""
        T, last = x.shape[1], self.kernel_width - 1
        x = x if real is None else jnp.where(real[..., None], x, jnp.zeros_like(x))
        window = jnp.concatenate([taps["inputs"], x], axis=1)
        kernel = self.filter_kernel[...].astype(accumulator(x.dtype))
        y = jnp.zeros(x.shape, kernel.dtype) if self.bias is None else self.bias[...].astype(kernel.dtype)
        for tap in range(self.kernel_width):
            here = window[:, tap : tap + T].astype(kernel.dtype)
            y = y + kernel[:, tap] * (here if visible is None else jnp.where(visible[:, :, tap, None], here, 0.0))
        return y.astype(x.dtype), {"inputs": window[:, window.shape[1] - last :]}

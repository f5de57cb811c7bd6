"""The convolution block that replaces self-attention, Wu et al. 2019 (arXiv 1901.10430), Figure 2, section 3.

The block is a gated linear unit, a depthwise convolution whose weights sum to 1 over its W taps, and a projection:
g = (x A + a) * sigmoid(x B + b); c_i = sum_w softmax(f_i)_w g_(i+w-left) + d; y = (c P + p) O + o. A variant subclasses
`GatedConvolution` and defines `filter_logits`, the f. In an encoder, a filter covers W // 2 positions to the left and
the rest to the right; in a decoder, W - 1 positions to the left and none to the right.

This is the block that Narang et al. 2021 ran (LocalConvAttnBlock of the Mesh TensorFlow release). Compared with the
paper, it adds the bias d and the pointwise projection P between convolution and output, and it has no DropConnect. The
release sets g to 0 where the token id is 0: at padding and, in training, at the decoder's BOS, whose id is also 0. Here
layers do not see ids: a mask marks padding, and BOS is an ordinary token (as in the decoding of the release). In the
release, filters read across the examples of a packed row; here the mask separates packed examples.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.no_dot_product.lightweight_convolution import advance, convolve
from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.multi_head import Mask
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class GatedConvolution(nnx.Module):
    """The base class of gated convolutions, with `num_filters` filters of `kernel_width` taps.

    Each filter serves width / num_filters neighbouring channels (the paper's heads). None means one filter per channel,
    as in the run of Narang et al. 2021. Calls return (y, aux), with the filters in ``aux["filters"]`` [B T N W], or
    [1 1 N W] if all positions have the same filters.
    """

    cost = ("(kernel_width - 1)*D", 1)

    def __init__(
        self, *, width: Positive, num_filters: Positive | None = None, kernel_width: Positive = 9, rngs: nnx.Rngs
    ):
        self.width, self.kernel_width = width, kernel_width
        self.num_filters = width if num_filters is None else num_filters
        self.linear = Linear(width, width, rngs=rngs)
        self.gate = Linear(width, width, rngs=rngs)
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))
        self.pointwise = Linear(width, width, rngs=rngs)
        self.output = Linear(width, width, rngs=rngs)

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "#B #T N W"]:
        """The logits of the filters (before the softmax), from the gated input. Each variant defines this."""
        raise NotImplementedError

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Applies the block to x. Positions that `mask` hides contribute 0; the other weights are not renormalized."""
        del shared
        left = self.kernel_width - 1 if is_causal else self.kernel_width // 2
        g = self.gated(x)
        filters, real = self.filters(g), None
        if mask is not None and mask.shape[1:3] == (1, 1):
            real = jnp.broadcast_to(mask[:, 0, 0], x.shape[:2])
        elif mask is not None:
            visible = at_taps(mask, self.kernel_width, left)[:, :, None]
            filters = jnp.where(visible, filters, jnp.zeros_like(filters))
        return self.project_out(convolve(g, filters, left, real)), {"filters": filters}

    def gated(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """The gated linear unit (Dauphin et al. 2017)."""
        return self.linear(x) * jax.nn.sigmoid(self.gate(x))

    def filters(self, g: Float[Array, "B T D"]) -> Float[Array, "#B #T N W"]:
        """The weights of each filter, which sum to 1 over its taps, in float32."""
        return jax.nn.softmax(self.filter_logits(g).astype(accumulator(g.dtype)), axis=-1)

    def project_out(self, convolved: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """Adds the bias of the convolution and applies the two projections."""
        return self.output(self.pointwise(convolved + self.bias[...].astype(convolved.dtype)))

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """The cache holds the last W - 1 gated inputs, whatever the length. It is initialized with zeros."""
        del length
        return {"inputs": jnp.zeros((batch, self.kernel_width - 1, self.width), dtype)}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes the next position of the causal convolution. Returns (y, cache, aux)."""
        del index, shared
        g = self.gated(x)
        filters = self.filters(g)
        inputs, convolved = advance(cache["inputs"], g[:, 0], filters)
        return self.project_out(convolved[:, None]), {"inputs": inputs}, {"filters": filters}


def at_taps(mask: Bool[Array, "#B #N T T"], kernel_width: int, left: int) -> Bool[Array, "#B T W"]:
    """Whether position i may attend to position i + w - left. Raises ValueError if the mask differs between heads."""
    if mask.shape[1] != 1:
        raise ValueError(f"mask: a convolution expects one mask for all heads, [B 1 T T], got {list(mask.shape)}")
    T = mask.shape[2]
    at = jnp.arange(T, dtype=jnp.int32)[:, None] + jnp.arange(kernel_width, dtype=jnp.int32) - left
    return jnp.take_along_axis(mask[:, 0], jnp.clip(at, 0, T - 1)[None], axis=-1)

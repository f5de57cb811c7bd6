"""Channel and spatial attention of SCA-CNN, Chen et al. 2017 (arXiv 1611.05594), section 3, at every decoder step.

Both depend on the decoder state: beta weights the channels of the feature map, and alpha weights the locations of the
map after beta is applied. The context is sum_i alpha_i (beta a_i) C. The factor C, the number of channels, makes the
mean of beta C equal to 1. The paper applies this in several layers of the network; here it is applied to the feature
map that the decoder reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels.vision import sca
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Given, Positive


class SCAAlignment(AlignmentModule):
    """SCA attention over a feature map. `attention_width` is the width of both tanh layers."""

    def __init__(self, *, attention_width: Positive, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        width, self.context_width = attention_width, key_width
        drawn = lambda *shape: nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))
        vector = lambda: nnx.Param(glorot_uniform(rngs.params(), (width, 1), jnp.float32)[:, 0])
        zeros = lambda: nnx.Param(jnp.zeros((width,), jnp.float32))
        self.spatial_kernel, self.spatial_bias, self.spatial_vector = drawn(key_width, width), zeros(), vector()
        self.channel_kernel, self.channel_bias, self.channel_vector = vector(), zeros(), vector()
        self.spatial_state_kernel, self.channel_state_kernel = drawn(query_width, width), drawn(query_width, width)

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Keeps the feature map as it is. The state is empty."""
        return {"values": memory["hidden"], "real": memory["real"]}, {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The context and alpha at each of the T steps."""
        del key
        context, weights = jax.vmap(self._step, in_axes=(1, None), out_axes=1)(query, fixed)
        return context, weights, state

    def _step(self, query: Float[Array, "B Dq"], fixed: Arrays) -> tuple[Float[Array, "B C"], Float[Array, "B S"]]:
        values, real = fixed["values"], fixed["real"]
        x, alpha, _ = sca(
            values[:, :, None], query,
            self.spatial_kernel[...], self.spatial_bias[...], self.spatial_state_kernel[...], self.spatial_vector[...],
            self.channel_kernel[...], self.channel_bias[...], self.channel_state_kernel[...], self.channel_vector[...],
            mask=real[:, :, None],
        )  # fmt: skip
        return jnp.sum(x, axis=(1, 2)) * jnp.asarray(values.shape[-1], values.dtype), alpha[:, :, 0]

"""CBAM's spatial attention as released (Jongchan/attention-module, MODELS/cbam.py), with normalized logits.

sigmoid(norm(conv([avg(x); max(x)]))), with avg and max over the channels. The paper (Woo et al. 2018, arXiv 1807.06521,
equation 3) has no norm. The released batch norm has a gain that is initialized to 0, so that every gate is initially
1/2. The momentum of its running moments is 0.01; here it is 0.1, as for all batch norms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.vision.spatial_attention import spatial_logits
from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.vision.gates.spatial import spatial_kernel
from attention_research.signatures import Given, Positive


class NormalizedSpatialGate(nnx.Module):
    """Spatial attention with a kernel [size size 2 1] and a batch norm of one feature. `size` is odd."""

    def __init__(self, *, size: Positive = 7, channels: Given[int], rngs: nnx.Rngs):
        del channels
        self.kernel = spatial_kernel(size, rngs)
        self.norm = BatchNorm(1, rngs=rngs)
        self.norm.scale = nnx.Param(jnp.zeros((1,), jnp.float32))

    def __call__(self, x: Float[Array, "B Y X C"], *, training: bool) -> tuple[Float[Array, "B Y X C"], dict[str, Any]]:
        """Returns (x times its gates, {"pixels": the gates [B Y X], "updates"})."""
        logits, updates = self.norm(spatial_logits(x, self.kernel[...])[..., None], training=training)
        gates = jax.nn.sigmoid(logits)
        return (x * gates).astype(x.dtype), {"pixels": gates[..., 0], UPDATES: nested(norm=updates)}

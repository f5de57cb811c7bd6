"""The Vision Transformer, Dosovitskiy et al. 2021 (arXiv 2010.11929): classifies an image by encoding its patches.

    z_0 = [class token; x_1 E; ...; x_N E] + positions             (1)
    z_l = z'_l + MLP(LN z'_l),  z'_l = MSA(LN z_(l-1)) + z_(l-1)   (2, 3)
    y   = LN z_L^0,  log p(class | image) = log softmax(y W + b)   (4)

With `pooling` "mean" there is no class token, and y is the mean of LN z_L over the patches (appendix D.3). Dropout is
applied where the encoder applies it. The paper also applies it between the two layers of the MLP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, UInt8

from attention_research.kernels.masks import padding_mask
from attention_research.layers.linear import Linear
from attention_research.layers.vision.patches import PatchEmbedding
from attention_research.signatures import Child, Positive, Rate


class VisionTransformer(nnx.Module):
    """A model with `log_probabilities` of the "image" [B Y X C] of a batch.

    `max_length` is the number of rows of the position table: the number of patches, (side / patch_side)^2, plus one for
    a class token. Equations 2 and 3 are the `steps` of the encoder section (`configs/images/vision_transformer.py`).

    An image is split into patches of `patch_side` x `patch_side` pixels.
    """

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive,
        patch_side: Positive,
        num_classes: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        head_width: Positive | None = None,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        pooling: Literal["class_token", "mean"] = "class_token",
        self_attention: Child["encoder_attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "learned",
        encoder: Child["encoder"] = "transformer",
        rngs: nnx.Rngs,
    ):
        del max_length, num_layers, num_heads, head_width, dropout_rate
        del self_attention, feed_forward, norm, positions  # inherited by the child sections
        self.side, self.pooling = side, pooling
        self.embedding = PatchEmbedding(
            patch_side=patch_side, channels=channels, width=width, dtype=dtype, rngs=rngs
        )  # fmt: skip
        token = lambda: nnx.Param(jax.random.normal(rngs.params(), (width,), jnp.float32) * width**-0.5)
        self.class_token = token() if pooling == "class_token" else None
        self.encoder = encoder(rngs=rngs)
        self.head = Linear(width, num_classes, rngs=rngs)

    def states(
        self, image: UInt8[Array, "B Y X C"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(states of the class token, if there is one, and of the patches; aux of the encoder)."""
        if image.shape[1:3] != (self.side, self.side):
            what = " x ".join(map(str, image.shape[1:3]))
            raise ValueError(f"side: the model reads images of {self.side} x {self.side}; these are {what}")
        x = self.embedding(image)
        if self.class_token is not None:
            token = jnp.broadcast_to(self.class_token[...].astype(x.dtype), (x.shape[0], 1, x.shape[2]))
            x = jnp.concatenate([token, x], axis=1)
        places = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        return self.encoder(x, places, padding_mask(jnp.ones(x.shape[:2], bool)), key=key)

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, {"pooling": {"weights" [B T]}, "encoder"}). Without a key, dropout is off.

        The pooling weights are the weight of each state in the input of the head. The aux of the encoder has the
        "attention_weights" [L B N T T] of all layers.
        """
        states, aux = self.states(batch["image"], key=key)
        weights = self._read(states.shape[1])
        vector = states[:, 0] if self.pooling == "class_token" else jnp.mean(states, axis=1)
        log_p = jax.nn.log_softmax(self.head(vector).astype(jnp.float32))
        return log_p, {"pooling": {"weights": jnp.broadcast_to(weights, states.shape[:2])}, "encoder": aux}

    def _read(self, length: int) -> Float[Array, "T"]:
        """The weight of each state in the input of the head."""
        if self.pooling == "mean":
            return jnp.full((length,), 1 / length, jnp.float32)
        return jnp.zeros((length,), jnp.float32).at[0].set(1.0)

"""Transparent attention, Bapna et al. 2018 (arXiv 1808.07561), section 4.1: each decoder layer attends to its own
weighted sum of all encoder layers, so that gradients reach the lowest layers directly.

z_j = sum_i s_ij e_i,    s_.j = softmax over i of W_.j,    i = 0 .. L, j = 1 .. the number of decoder layers

Here e_0 is the input of the first layer (embeddings and positions, after dropout), e_i the output of layer i, and e_L
the output of the encoder after its final norm. This, and the initialization of W by N(0, 1 / (L + 1)), follow the code
of Narang et al. 2021. The paper applies dropout to W; that code and this module do not.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.padding import real_tokens
from attention_research.models.encoder import Encoder
from attention_research.signatures import Positive


class TransparentEncoder(Encoder):
    """Embeddings [B S D] -> one memory for each decoder layer [M B S D]. The settings are those of the encoder.

    M is `decoder_layers` (None: the number of encoder layers). The only additional parameter is W [L+1 M].
    """

    def __init__(
        self, *, num_layers: Positive, decoder_layers: Positive | None = None, rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(num_layers=num_layers, rngs=rngs, **inherited)
        shape = (num_layers + 1, num_layers if decoder_layers is None else decoder_layers)
        self.weights = nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * shape[0] ** -0.5)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "M B S D"], dict[str, Any]]:
        """(the memories, aux of the stack)."""
        keys = (None, None) if key is None else jax.random.split(key)
        x = self._enter(x, positions, keys[0], mask)
        inputs: dict[str, dict[str, Any]] = {
            "self_attention": {"mask": mask, "shared": self.shared},
            "padding": real_tokens(mask),
            "tokens": real_tokens(mask),
        }
        output, aux = self.stack(x, inputs, key=keys[1])
        output = output if self.final_norm is None else self.final_norm(output)
        hidden = jnp.concatenate([segment["hidden"] for segment in aux.values()])
        layers = jnp.concatenate([x[None], hidden[:-1], output[None]])
        shares = jax.nn.softmax(self.weights[...], axis=0).astype(x.dtype)
        return jnp.einsum("LM,LBSD->MBSD", shares, layers), aux

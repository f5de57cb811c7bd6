"""The encoder of Perceivers, Jaegle et al. 2021 (arXiv 2103.03206; Perceiver IO: 2107.14795, section 3.1).

    z <- z + Attention(LN(z), LN(x)),  z <- z + FFN(LN(z))        M latents z read the S inputs x
    z <- a stack of self-attention blocks over the latents         `blocks` times, with the same weights

The inputs enter by cross-attention alone, so that the cost is linear in S. Perceiver IO reads once, at the beginning;
the first Perceiver reads before every block. Its first reading has weights of its own; here all readings have the same.
A decoder attends to the M latents, as the output queries of Perceiver IO do.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.layers.block import Block
from attention_research.models.layered import Layered
from attention_research.signatures import Child, Positive, Rate


class PerceiverEncoder(Layered):
    """Embeddings [B S D] -> latents [B M D]. The settings are those of the encoder.

    `num_latents` is M; the latents begin at N(0, 0.02^2). The stack of `num_layers` layers is applied `blocks` times.
    `reads` says whether the latents read the inputs once or before each_block. The steps of a reading are `steps`, with
    cross-attention in place of self-attention.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        num_latents: Positive = 32,
        blocks: Positive = 1,
        reads: Literal["once", "each_block"] = "once",
        dropout_rate: Rate,
        self_attention: Child["encoder_attention"],
        cross_attention: Child["cross_attention"] = "standard",
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        self.blocks, self.reads_once = blocks, reads == "once"
        children = {"self_attention": self_attention, "feed_forward": feed_forward, "norm": norm}
        self._build(
            children,
            num_layers=num_layers,
            steps=steps,
            dropout_rate=dropout_rate,
            positions=positions,
            final_norm=final_norm,
            unroll=unroll,
            remat=remat,
            rngs=rngs,
        )
        crossing = tuple(tuple(step.replace("self_attention", "cross_attention") for step in of) for of in steps)
        reader = {"cross_attention": cross_attention, "feed_forward": feed_forward, "norm": norm}
        self.reader = Block(steps=crossing, children=reader, dropout_rate=dropout_rate, rngs=rngs)
        self.input_norm = norm(rngs=rngs)
        self.latents = nnx.Param(0.02 * jax.random.normal(rngs.params(), (num_latents, width), jnp.float32))
        self.shared = owned_by_stack(self_attention, rngs)
        self.cross_shared = owned_by_stack(cross_attention, rngs)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B M D"], dict[str, Any]]:
        """(latents, aux of each block). `memory_mask` returns their mask. Raises ValueError for packed rows."""
        if mask.shape[2] != 1:
            raise ValueError(f"mask: a Perceiver needs a mask [B 1 1 S], without packed rows; got shape {mask.shape}")
        keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
        inputs = self.input_norm(self._enter(x, positions, keys[0], mask))
        real = jnp.ones((x.shape[0], self.latents.shape[0]), bool)
        here: dict[str, dict[str, Any]] = {"padding": {"real": real}, "tokens": {"real": real}}
        reading: dict[str, dict[str, Any]] = {
            "cross_attention": {"memory": inputs, "mask": mask, "shared": self.cross_shared},
            "layer": {"depth": jnp.int32(0), "handed": {}},
            **here,
        }
        within: dict[str, dict[str, Any]] = {
            "self_attention": {"mask": self.memory_mask(mask), "shared": self.shared},
            **here,
        }
        z = jnp.broadcast_to(self.latents[...].astype(x.dtype), (x.shape[0], *self.latents.shape))
        aux: dict[str, Any] = {}
        for number in range(self.blocks):
            own = [None if one is None else jax.random.fold_in(one, number) for one in keys[1:]]
            aux[f"block_{number}"] = collected = {}
            if number == 0 or not self.reads_once:
                z, collected["reader"] = self.reader(z, reading, key=own[0])
            z, stack = self.stack(z, within, key=own[1])
            collected.update(stack)
        return (z if self.final_norm is None else self.final_norm(z)), aux

    def memory_mask(self, mask: Bool[Array, "B 1 #T S"]) -> Bool[Array, "B 1 1 M"]:
        """The mask of the latents that a decoder may attend to: all of them."""
        return jnp.ones((mask.shape[0], 1, 1, self.latents.shape[0]), bool)

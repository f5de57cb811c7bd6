"""The Funnel Transformer's encoder, Dai et al. 2020 (arXiv 2006.03236), as Narang et al. 2021 ran it before a decoder.

The layers are divided into equal blocks. Each block after the first one halves the sequence: S, S/2, S/4. With three
blocks, the decoder attends to S/4 vectors. There is no upsampling, and pooling adds no parameters. The paper pools the
query of the first self-attention of a block, h <- LN(Pool(h) + Attention(Q = Pool(h), KV = h)) (section 2.2). The
released code of Narang et al. pools the output of that self-attention and its residual, and so does this module:

    x <- Pool(x + Attention(LN(x))),    Pool(x)_i = (x_2i + x_2i+1) / 2

After the pooling, positions are those of the pooled sequence, 0 .. S/2 - 1, also for relative biases.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.kernels.masks import padding_mask
from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.layers.block import Block, Steps
from attention_research.layers.padding import Padding
from attention_research.layers.pair_mean import PairMean, halved
from attention_research.layers.stack import Stack, unstacked
from attention_research.models.layered import Layered
from attention_research.signatures import Child, Positive, Rate


def pooling(steps: Steps) -> Steps:
    """Inserts "pool" after the residual of the first self-attention. Later steps "padding" become "pooled_padding".

    >>> pooling((("norm", "self_attention", "residual"), ("norm", "feed_forward", "residual")))
    (('norm', 'self_attention', 'residual', 'pool'), ('norm', 'feed_forward', 'residual'))
    """
    for number, branch in enumerate(steps):
        if "self_attention" in branch and "residual" in branch[branch.index("self_attention") :]:
            after = branch.index("residual", branch.index("self_attention")) + 1
            rest = [tuple("pooled_padding" if step == "padding" else step for step in of) for of in steps[number + 1 :]]
            return (*steps[:number], (*branch[:after], "pool", *branch[after:]), *rest)
    raise ConfigError("steps: the Funnel encoder pools after a self-attention with a residual; the steps have none")


class FunnelStack(Stack):
    """A `layers.stack.Stack` that runs segments of one layer without a scan, so that they may change the length."""

    def _over_layers(self, body: Callable, carry: Any, layers: Any, repeat: int) -> tuple[Any, Any]:
        if repeat > 1:
            return super()._over_layers(body, carry, layers, repeat)
        carry, output = body(carry, *unstacked(layers, 1))
        return carry, jax.tree.map(lambda x: x[None], output)


class FunnelEncoder(Layered):
    """Embeddings [B S D] -> hidden states [B P D], where P is `S / 2^(blocks - 1)` rounded up.

    The settings are those of the encoder. Raises ValueError for packed rows, because a pooled pair could belong to two
    examples. Raises ConfigError if `blocks` does not divide `num_layers`, for steps without a self-attention to pool,
    and for a self-attention whose layers hand keys or values to each other, since their lengths differ.

    `blocks` is the number of blocks of layers; each block after the first halves the length.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        blocks: Positive = 3,
        dropout_rate: Rate,
        self_attention: Child["encoder_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        residual: Child["residual"] = "plain",
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("self_attention", "dropout", "residual", "norm"),
            ("feed_forward", "dropout", "residual", "norm"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        del width  # the children inherit it from the section
        if num_layers % blocks:
            raise ConfigError(f"num_layers: {num_layers} layers cannot be divided into {blocks} equal blocks")
        if hasattr(self_attention.target, "by_layer"):
            raise ConfigError(
                f"self_attention.kind: {self_attention.target.__name__} needs layers of one length; a Funnel halves it"
            )
        children = {
            "self_attention": self_attention, "feed_forward": feed_forward, "norm": norm, "residual": residual,
            "pool": PairMean, "pooled_padding": Padding,
        }  # fmt: skip
        block = partial(Block, children=children, dropout_rate=dropout_rate)
        plain, pools, each = partial(block, steps=steps), partial(block, steps=pooling(steps)), num_layers // blocks
        segments = [(plain, each)] + [(pools, 1), (plain, each - 1)] * (blocks - 1)
        segments = [(layer, repeat) for layer, repeat in segments if repeat]
        self.pools = tuple(layer is pools for layer, _ in segments)
        self.dropout_rate = dropout_rate
        self.positions = positions(rngs=rngs)
        self.stack = FunnelStack(segments=segments, unroll=unroll, remat=remat, rngs=rngs)
        self.final_norm = norm(rngs=rngs) if final_norm else None
        self.shared = owned_by_stack(self_attention, rngs)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B P D"], dict[str, Any]]:
        """(hidden states, aux of the stack). `memory_mask` returns the mask of the hidden states without padding."""
        if mask.shape[2] != 1:
            raise ValueError(
                f"mask: the Funnel encoder needs a mask [B 1 1 S], without packed rows; got shape {mask.shape}"
            )
        keys = (None, None) if key is None else jax.random.split(key)
        x, real, aux = self._enter(x, positions, keys[0], mask), mask[:, 0, 0], {}
        for number, pools in enumerate(self.pools):
            attention = {"mask": padding_mask(real), "shared": self.shared}
            inputs: dict[str, dict[str, Any]] = {
                "self_attention": attention,
                "padding": {"real": real},
                "pool": {"real": real},
            }
            real = halved(real) if pools else real
            inputs["pooled_padding"] = inputs["tokens"] = {"real": real}
            x, aux[f"segment_{number}"] = self.stack.segment(number, x, inputs, key=keys[1])
        return (x if self.final_norm is None else self.final_norm(x)), aux

    def memory_mask(self, mask: Bool[Array, "B 1 1 S"]) -> Bool[Array, "B 1 1 P"]:
        """The mask of the hidden states that a decoder may attend to. A pooled pair is visible if one of its positions
        is not padding."""
        real = mask[:, 0, 0]
        for _ in range(sum(self.pools)):
            real = halved(real)
        return padding_mask(real)

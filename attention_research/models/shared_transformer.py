"""An encoder-decoder whose two stacks have one set of weights (Raffel et al. 2020, section 3.2.2, "shared").

The decoder's self-attention, feed-forward and their norms are those of the encoder, layer by layer. Its own are its
attention to the source with the norm before it, its last norm, and its biases of relative positions, which look back
only: about half the parameters of two stacks, at the same compute.
"""

from __future__ import annotations

from typing import Any

import jax

from attention_research.layers.block import Block
from attention_research.models.decoder import Decoder
from attention_research.models.transformer import Transformer


class SharedTransformer(Transformer):
    """A `Transformer` whose decoder has, of all that both have, the encoder's.

    Raises ValueError where the two do not have the same layers but for the decoder's attention to the source.
    """

    def __init__(self, **inherited: Any):
        super().__init__(**inherited)
        for ours, theirs in self._pairs(self.decoder):
            for name in _same(ours, theirs):
                delattr(ours, name)

    def _pairs(self, decoder: Decoder) -> list[tuple[Block, Block]]:
        """The blocks of both stacks, segment by segment."""
        segments, others = decoder.stack.segments, self.encoder.stack.segments
        if decoder.stack.repeats != self.encoder.stack.repeats:
            raise ValueError("shared_transformer: encoder and decoder need the same number of layers")
        return list(zip(segments, others, strict=True))

    def writer(self) -> Decoder:
        """The decoder with the encoder's layers in it: a copy, so that each weight has one place."""
        decoder = jax.tree.map(lambda x: x, self.decoder)
        for ours, theirs in self._pairs(decoder):
            for name, other in _same(ours, theirs).items():
                setattr(ours, name, getattr(theirs, other))
        return decoder


def _same(decoder: Block, encoder: Block) -> dict[str, str]:
    """Attribute of a decoder's block -> that of the encoder's with the same part: those of the branches in turn, but
    for the branch with attention to the source."""
    shared = [branch for branch in decoder.branches if not any("cross_attention" in kinds for kinds, _ in branch)]
    if [[kinds for kinds, _ in branch] for branch in shared] != [[k for k, _ in branch] for branch in encoder.branches]:
        raise ValueError(
            "shared_transformer: without attention to the source, the decoder's steps are not the encoder's"
        )
    pairs = zip(shared, encoder.branches, strict=True)
    return {
        name: other
        for ours, theirs in pairs
        for (_, name), (_, other) in zip(ours, theirs, strict=True)
        if hasattr(encoder, other)
    }

"""An encoder-decoder whose two stacks share their weights (Raffel et al. 2020, section 3.2.2, "shared").

In each layer, the decoder uses the self-attention, the feed-forward layer and their norms of the encoder. The decoder
has its own attention to the source with its norm, its own final norm, and its own relative position biases, which are
causal. This has about half the parameters of two separate stacks at the same compute.
"""

from __future__ import annotations

from typing import Any

import jax

from attention_research.errors import ConfigError
from attention_research.layers.block import Block
from attention_research.models.decoder import Decoder
from attention_research.models.transformer import Transformer


class SharedTransformer(Transformer):
    """A `Transformer` whose decoder uses the layers of the encoder wherever both stacks have the same layer.

    Raises ConfigError if the layers of the two stacks differ in more than the attention of the decoder to the source,
    and if a layer that they share has another kind or other settings in the decoder.
    """

    def __init__(self, **inherited: Any):
        super().__init__(**inherited)
        for ours, theirs in self._pairs(self.decoder):
            for name, other in _same(ours, theirs).items():
                kinds = type(getattr(ours, name)).__name__, type(getattr(theirs, other)).__name__
                if kinds[0] != kinds[1]:
                    raise ConfigError(
                        f"model.decoder.{name}: {kinds[0]}; the stacks of shared_transformer share their layers, "
                        f"and the encoder has {kinds[1]}"
                    )
                if _form(getattr(ours, name)) != _form(getattr(theirs, other)):
                    raise ConfigError(
                        f"model.decoder.{name}: {kinds[0]} with other settings than the encoder's; the stacks of "
                        "shared_transformer share their layers"
                    )
                delattr(ours, name)

    def _pairs(self, decoder: Decoder) -> list[tuple[Block, Block]]:
        """Pairs of corresponding blocks of the two stacks, one for each segment."""
        segments, others = decoder.stack.segments, self.encoder.stack.segments
        if decoder.stack.repeats != self.encoder.stack.repeats:
            raise ConfigError(
                f"model.decoder.num_layers: the stacks of shared_transformer need equal layers; segments of "
                f"{decoder.stack.repeats} layers and of {self.encoder.stack.repeats} in the encoder differ"
            )
        return list(zip(segments, others, strict=True))

    def writer(self) -> Decoder:
        """A copy of the decoder that contains the layers of the encoder. The model itself stores each weight once."""
        decoder = jax.tree.map(lambda x: x, self.decoder)
        for ours, theirs in self._pairs(decoder):
            for name, other in _same(ours, theirs).items():
                setattr(ours, name, getattr(theirs, other))
        return decoder


def _form(layer: Any) -> tuple[Any, list[Any]]:
    """What the settings of a layer determine: its static attributes, and the shapes of its arrays."""
    leaves, structure = jax.tree.flatten(layer)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _same(decoder: Block, encoder: Block) -> dict[str, str]:
    """Attribute of a decoder block -> attribute of the encoder block with the same layer.

    The branches are matched in order, without the branch with attention to the source.
    """
    shared = [branch for branch in decoder.branches if not any("cross_attention" in kinds for kinds, _ in branch)]
    if [[kinds for kinds, _ in branch] for branch in shared] != [[k for k, _ in branch] for branch in encoder.branches]:
        raise ConfigError(
            "model.decoder.steps: apart from attention to the source, the steps of the decoder and the encoder of "
            "shared_transformer must be equal"
        )
    pairs = zip(shared, encoder.branches, strict=True)
    return {
        name: other
        for ours, theirs in pairs
        for (_, name), (_, other) in zip(ours, theirs, strict=True)
        if hasattr(encoder, other)
    }

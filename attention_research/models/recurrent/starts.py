"""The initial state of a recurrent decoder: the states of the encoder, a projection of them, or zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.linear import Linear
from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.signatures import ConfigPath, Given

States = tuple[dict[str, Any], ...]


class EncoderState(nnx.Module):
    """Layer l of the decoder starts from the final state of layer l of the encoder (Sutskever et al. 2014).

    Raises ConfigError if the two differ in width or in the number of layers, or if the cell of the decoder has a state
    that the encoder's cell lacks.
    """

    config_path = ConfigPath()

    def __init__(
        self, *, layers: Given[RecurrentLayers], summary_width: Given[int], final_width: Given[int], rngs: nnx.Rngs
    ):
        del summary_width, rngs
        if final_width != layers.width:
            raise ConfigError(
                f"decoder.start.kind: encoder_state: the encoder's states have width {final_width}, the decoder's "
                f"{layers.width}; use the kind projected"
            )

    def __call__(self, memory: Mapping[str, Any], zeros: States) -> States:
        """The final states of the encoder."""
        kind = self.config_path.of("kind")
        if len(memory["final"]) != len(zeros):
            raise ConfigError(
                f"{kind}: encoder_state: the encoder has {len(memory['final'])} layers, the decoder has "
                f"{len(zeros)}; use the kind projected"
            )
        if missing := [name for name in zeros[0] if name not in memory["final"][0]]:
            raise ConfigError(
                f"{kind}: encoder_state passes no {missing[0]!r} state, since the encoder's cell has "
                f"{', '.join(sorted(memory['final'][0]))}; use projected, or cells of one kind"
            )
        return tuple({name: after[name] for name in there} for there, after in zip(zeros, memory["final"], strict=True))


class Projected(nnx.Module):
    """s_0 = tanh(W h), where h is the summary of the encoder (Bahdanau et al. 2015, A.2.2).

    Each state of each layer has its own W. In the paper, h is the backward state at the first word.
    """

    def __init__(
        self, *, layers: Given[RecurrentLayers], summary_width: Given[int], final_width: Given[int], rngs: nnx.Rngs
    ):
        del final_width
        self.names = tuple(tuple(state) for state in layers.initial(1, jnp.float32))
        linear = lambda: Linear(summary_width, layers.width, rngs=rngs)
        self.linear = nnx.List([nnx.List([linear() for _ in names]) for names in self.names])

    def __call__(self, memory: Mapping[str, Any], zeros: States) -> States:
        """The projected states."""
        del zeros
        both = zip(self.names, self.linear, strict=True)
        project = lambda linear: jnp.tanh(linear(memory["summary"]))
        return tuple(
            {name: project(linear) for name, linear in zip(names, layer, strict=True)} for names, layer in both
        )


class Zeros(nnx.Module):
    """The decoder starts from zeros, without information about the source."""

    def __init__(
        self, *, layers: Given[RecurrentLayers], summary_width: Given[int], final_width: Given[int], rngs: nnx.Rngs
    ):
        del layers, summary_width, final_width, rngs

    def __call__(self, memory: Mapping[str, Any], zeros: States) -> States:
        """Zeros."""
        del memory
        return zeros

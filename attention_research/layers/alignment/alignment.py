"""What the alignments have in common: where a decoder looks, given its state, step by step or for many steps at once.

A source ("memory") is a dictionary: "hidden" [B S Dk], the encoder's states; "real" [B S], where they are no padding;
"last" [B Dk], the encoder's last state. `start` turns it into what stays (`fixed`) and what each step hands on
(`state`): an alignment that depends on the step before, or on the step's number, has such a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.precision import einsum
from attention_research.layers.alignment.scores.score import Score

Arrays = dict[str, Any]


class Alignment(nnx.Module):
    """``alignment(query [B T Dq], fixed, state)`` -> (context [B T C], weights [B T S], state after T steps)."""

    context_width: int
    #: Numbers of each row that a step leaves in its state for the decoder to report, under "reported" there.
    reported: tuple[str, ...] = ()

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """(fixed, state) before the first step."""
        raise NotImplementedError

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """Where the decoder looks at T steps, weights in float32; `key` is given in training only."""
        raise NotImplementedError


def steps(index: Int[Array, ""], count: int) -> Int[Array, "T"]:
    """The numbers of the next `count` steps."""
    return index + jnp.arange(count, dtype=jnp.int32)


def lengths(real: Bool[Array, "B S"]) -> Int[Array, "B"]:
    """How many real positions each source has."""
    return jnp.sum(real, axis=1).astype(jnp.int32)


def average(weights: Float[Array, "B T S"], values: Float[Array, "B S D"]) -> Float[Array, "B T D"]:
    """The sum of the values under weights that are given."""
    return einsum("BTS,BSD->BTD", weights.astype(values.dtype), values).astype(values.dtype)


def prepared(score: Score, memory: Mapping[str, Any]) -> Arrays:
    """What an alignment by a score reads at every step: prepared keys, values, and which are real."""
    hidden = memory["hidden"]
    return {"keys": score.prepare(hidden), "values": hidden, "real": memory["real"]}

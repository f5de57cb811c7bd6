"""What an alignment gives, the contract between it and a recurrent decoder, and what the alignments have in common.

A source ("memory") is a dictionary: "hidden" [B S Dk], the encoder's states; "real" [B S], where they are no padding;
"last" [B Dk], the encoder's last state. `start` turns it into what stays (`fixed`) and what each step hands on
(`state`): an alignment that depends on the step before, or on the step's number, has such a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.precision import einsum
from attention_research.layers.alignment.scores.score import Score

Arrays = dict[str, Any]


class Alignment(Protocol):
    """Where a recurrent decoder looks in its source, given its state.

    A decoder builds one with the widths of both, asks `context_width` for the width of what it will be given, calls
    `start` once a source, and then the alignment itself at every step, or for all steps of a target at once where no
    state depends on them. Both ways give the same.
    """

    @property
    def context_width(self) -> int:
        """C; 0 where there is no context."""
        ...

    @property
    def reported(self) -> tuple[str, ...]:
        """Numbers of each row that a step leaves in its state for the decoder to report, under "reported" there."""
        ...

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """(fixed, state) before the first step."""
        ...

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """(context, weights, state after T steps); weights in float32, 0 on padding; a `key` in training only."""
        ...


class Judged(Alignment, Protocol):
    """One whose choices are learned by what they cost (REINFORCE): `reported` are then their probabilities."""

    def judged(self, cost: Float[Array, "B 1"]) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(the baseline of this batch's costs, updates: that of the next batch's)."""
        ...


class AlignmentModule(nnx.Module):
    """The base of the alignments here: what an `Alignment` has that most of them do not need."""

    context_width: int
    reported: tuple[str, ...] = ()


def steps(index: Int[Array, ""], count: int) -> Int[Array, "T"]:
    """The numbers of the next `count` steps."""
    return index + jnp.arange(count, dtype=jnp.int32)


def lengths(real: Bool[Array, "B S"]) -> Int[Array, "B"]:
    """How many non-padding positions each source has."""
    return jnp.sum(real, axis=1).astype(jnp.int32)


def average(weights: Float[Array, "B T S"], values: Float[Array, "B S D"]) -> Float[Array, "B T D"]:
    """The sum of the values under weights that are given."""
    return einsum("BTS,BSD->BTD", weights.astype(values.dtype), values).astype(values.dtype)


def prepared(score: Score, memory: Mapping[str, Any]) -> Arrays:
    """What an alignment by a score reads at every step: prepared keys, values, and which are not padding."""
    hidden = memory["hidden"]
    return {"keys": score.prepare(hidden), "values": hidden, "real": memory["real"]}

"""The interface between an alignment and a recurrent decoder, and functions that alignments share.

A source ("memory") is a dictionary: "hidden" [B S Dk], the encoder states; "real" [B S], True where a position is not
padding; "last" [B Dk], the last encoder state. `start` turns the memory into `fixed`, which is the same at all steps,
and `state`, which each step passes to the next. Alignments that depend on the previous step or on the step index have a
state; for others it is empty.
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
    """The attention of a recurrent decoder over its source, given the decoder state.

    A decoder constructs the alignment with the widths of queries and keys, reads `context_width`, calls `start` once
    per source, and then calls the alignment at every step. If the decoder states do not depend on the contexts, one
    call can take all steps of a target; the result is the same.
    """

    @property
    def context_width(self) -> int:
        """The context width C; 0 if there is no context."""
        ...

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of per-row numbers that each step stores in ``state["reported"]`` for the decoder to report."""
        ...

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Returns (fixed, state) before the first step."""
        ...

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """Returns (context, weights, state after T steps).

        The weights are float32 and 0 on padding. A `key` is passed only in training.
        """
        ...


class Judged(Alignment, Protocol):
    """An alignment that is trained by REINFORCE. Its `reported` numbers describe the probabilities of its choices."""

    def judged(self, cost: Float[Array, "B 1"]) -> tuple[Float[Array, ""], dict[str, Any]]:
        """Returns (the baseline for the costs of this batch, updates with the baseline for the next batch)."""
        ...


class AlignmentModule(nnx.Module):
    """The base class of all alignments. By default, an alignment reports no numbers."""

    context_width: int
    reported: tuple[str, ...] = ()


def steps(index: Int[Array, ""], count: int) -> Int[Array, "T"]:
    """The indices of the next `count` steps."""
    return index + jnp.arange(count, dtype=jnp.int32)


def lengths(real: Bool[Array, "B S"]) -> Int[Array, "B"]:
    """The number of non-padding positions of each source."""
    return jnp.sum(real, axis=1).astype(jnp.int32)


def average(weights: Float[Array, "B T S"], values: Float[Array, "B S D"]) -> Float[Array, "B T D"]:
    """The weighted sum of the values."""
    return einsum("BTS,BSD->BTD", weights.astype(values.dtype), values).astype(values.dtype)


def prepared(score: Score, memory: Mapping[str, Any]) -> Arrays:
    """The `fixed` part for alignments with a score: prepared keys, values, and the mask of non-padding positions."""
    hidden = memory["hidden"]
    return {"keys": score.prepare(hidden), "values": hidden, "real": memory["real"]}

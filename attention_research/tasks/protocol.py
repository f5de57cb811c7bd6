"""What a task gives: the contract between a loss and the train step.

A task says what a batch means: which numbers are optimised, and what they are a mean of. It reads a model by one method
of `models.protocol`, which its type says: `Task[ScoresTokens]` trains what gives likelihoods, `Task[Classifies]` what
gives classes, `Task[Rates]` what gives ratings. The train step, validation and evaluation know no more of a task than
this. How a trained model is scored is an evaluation's (`tasks.evaluation_protocol`).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from jaxtyping import Array, Float, Key

from attention_research.models.protocol import Batch

ModelRead = TypeVar("ModelRead", contravariant=True)


class Task(Protocol[ModelRead]):
    """Sums, not means: a batch in parts, or on several devices, is summed first and divided by the count of all."""

    def count(self, batch: Batch) -> Float[Array, ""]:
        """How many of what is counted a batch has (tokens that are not padding, examples), at least 1: what `loss` is
        divided by."""
        ...

    def loss(
        self, model: ModelRead, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(the summed loss to optimise, name -> other sums to log, each divided by the count).

        With a key, in training, the sums of a model with running statistics have "updates", their new values by name
        (`layers.running_statistics`). Without a key there is no dropout and nothing that is there in training alone.
        """
        ...

"""The task protocol: the contract between a loss and the train step.

A task defines the loss of a batch and the number of items by which it is divided. It calls one method of a model
(`models.protocol`), as its type shows: `Task[ScoresTokens]` trains models with likelihoods, `Task[Classifies]` models
with classes, `Task[Rates]` models with ratings, and `Task[MapsSeries]` models of series of numbers. The train step,
validation and evaluation use only the methods below. Evaluations score a trained model (`tasks.evaluation_protocol`).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from jaxtyping import Array, Float, Key

from attention_research.models.protocol import Batch

ModelRead = TypeVar("ModelRead", contravariant=True)


class Task(Protocol[ModelRead]):
    """A loss as a sum, and its count. The sums over the parts of a batch, or over devices, are divided by the total
    count."""

    def count(self, batch: Batch) -> Float[Array, ""]:
        """The number of items in a batch (non-padding tokens or examples), at least 1. `loss` is divided by it."""
        ...

    def loss(
        self, model: ModelRead, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(summed loss to optimise, name -> other sums to log). Each is divided by the count.

        With a key (training), the sums of a model with running statistics have "updates", the new values by name
        (`layers.running_statistics`). Without a key, dropout and all other parts of training are off.
        """
        ...

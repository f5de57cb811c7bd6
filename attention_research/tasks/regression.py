"""Regression: the squared error of one number, which a model reads off a whole series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import MapsSeries
from attention_research.tasks.auxiliary import with_auxiliary
from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import Floor, Metric


class Regression:
    """loss = (y - value)^2, summed over the examples, and their auxiliary losses.

    y is the first value at the last position. A "value" of NaN marks a row that only fills the batch.
    """

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of examples, at least 1."""
        return jnp.maximum(jnp.sum(~jnp.isnan(batch["value"])), 1).astype(jnp.float32)

    def loss(
        self, model: MapsSeries, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(summed loss, auxiliary losses and figures to log)."""
        real = ~jnp.isnan(batch["value"])
        values, aux = model.values(batch, key=key)
        error = last(values) - jnp.where(real, batch["value"], 0.0)
        total, sums = with_auxiliary(jnp.sum(jnp.square(error), where=real), {}, aux, real[:, None])
        return total, jax.lax.stop_gradient(sums)


class RegressionEvaluation(Evaluation):
    """The mean squared error over the examples."""

    needs = ("values",)
    metrics = (
        Metric(
            "squared_error",
            "mean squared error",
            "lower",
            digits=2,
            significant=True,
            floor_digits=4,
            floors=(
                Floor("constant", "the mean of training", "constant_error", "the mean of training", "the constant's"),
            ),
        ),
    )

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"value" [B]}: the number that the model gives."""
        return {"value": last(model.values(batch)[0])}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> Scores:
        """`squared_error`, `constant_error` (that of always answering the mean of training), and `examples`."""
        pairs = [(batch["value"][ids >= 0], outputs["value"][ids >= 0]) for ids, batch, outputs in triples]
        wanted, given = (np.concatenate(side).astype(np.float64) for side in zip(*pairs, strict=True))
        mean = float(np.mean(data.arrays("train")["value"], dtype=np.float64))
        return {
            "squared_error": float(np.mean((given - wanted) ** 2)),
            "constant_error": float(np.mean((mean - wanted) ** 2)),
            "examples": len(wanted),
        }

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        constant = f"always the mean of training {scores['constant_error']:.4f}"
        return f"mean squared error {scores['squared_error']:.2e} · {scores['examples']:,} examples · {constant}"


def last(values: Float[Array, "B T O"]) -> Float[Array, "B"]:
    """The first value at the last position."""
    return values[:, -1, 0]

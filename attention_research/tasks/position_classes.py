"""One class for each position of a series: the mean cross-entropy over all positions, and the right symbols among
those that are not blank."""

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


class PositionClasses:
    """loss = -log softmax(values)_target, summed over all positions, and auxiliary losses.

    A target of -1 does not count. The loss of a target without a value in the model is NaN, which stops the run.
    """

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of positions, at least 1."""
        return jnp.maximum(jnp.sum(batch["target"] >= 0), 1).astype(jnp.float32)

    def loss(
        self, model: MapsSeries, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(summed loss, other sums to log). "correct" is the number of positions whose most probable class is the
        target."""
        values, aux = model.values(batch, key=key)
        nll, right = measured(values, batch)
        sums = {"correct": jnp.sum(right).astype(jnp.float32)}
        total, sums = with_auxiliary(jnp.sum(nll), sums, aux, batch["target"] >= 0)
        return total, jax.lax.stop_gradient(sums)


class PositionClassEvaluation(Evaluation):
    """The mean loss over all positions, and the share of right classes at the positions that are not blank."""

    needs = ("values",)
    metrics = (
        Metric(
            "position_loss",
            "loss a position",
            "lower",
            digits=2,
            significant=True,
            floor_digits=4,
            floors=(Floor("memoryless", "without a memory", "memoryless_loss", "the answer without a memory", "its"),),
        ),
        Metric("recalled", "recalled symbols, %", "higher"),
    )

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"loss" [B]: the summed loss of a row, "right" [B T]: whether the most probable class is the target}."""
        nll, right = measured(model.values(batch)[0], batch)
        return {"loss": jnp.sum(nll, axis=1), "right": right}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> Scores:
        """`position_loss`, `recalled` in percent, the number of `examples`, and `memoryless_loss`."""
        loss, positions, right, asked, examples = 0.0, 0, 0, 0, 0
        for ids, batch, outputs in triples:
            real = np.asarray(ids) >= 0
            target = np.asarray(batch["target"])[real]
            loss += float(np.sum(np.asarray(outputs["loss"], np.float64)[real]))
            counted = target >= 0
            positions, examples = positions + int(counted.sum()), examples + len(target)
            symbols = counted & (target != data.blank)
            asked, right = asked + int(symbols.sum()), right + int((np.asarray(outputs["right"])[real] & symbols).sum())
        return {
            "position_loss": loss / max(positions, 1),
            "recalled": 100.0 * right / max(asked, 1),
            "memoryless_loss": data.memoryless,
            "examples": examples,
        }

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        without = f"without a memory {scores['memoryless_loss']:.4f}"
        return f"loss a position {scores['position_loss']:.2e} · recalled {scores['recalled']:.1f}% · {without}"


def measured(values: Float[Array, "B T C"], batch: Mapping[str, Array]) -> tuple[Float[Array, "B T"], Array]:
    """(-log p of the target at each position, 0 where it does not count; whether it is the most probable class)."""
    target, real = jnp.maximum(batch["target"], 0), batch["target"] >= 0
    log_p = jnp.take_along_axis(jax.nn.log_softmax(values), target[..., None], axis=-1, mode="fill")[..., 0]
    return jnp.where(real, -log_p, 0.0), (jnp.argmax(values, axis=-1) == target) & real

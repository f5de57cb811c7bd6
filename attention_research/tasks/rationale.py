"""The loss of ratings with rationales, Lei, Barzilay & Jaakkola 2016 (arXiv 1606.04155), equations 2 to 5.

    cost(z, x, y) = ||enc(z, x) - y||^2 + l1 sum_t z_t + l2 sum_t |z_t - z_{t-1}|

The loss is the expected cost over z ~ p(z | x). The gradient for the encoder is that of the squared error. The gradient
for the generator is estimated by REINFORCE with one sample of z:

    E_z[ cost(z, x, y) d log p(z | x) ]

`loss` returns one number with both gradients: the cost, plus a surrogate minus the value of the surrogate. A batch has
`source` [B S], and `ratings` [B R] in [0, 1] or `label` [B] (0 or 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from attention_research.errors import ConfigError
from attention_research.kernels.precision import accumulator
from attention_research.kernels.selection import reinforce_surrogate
from attention_research.models.protocol import Rates
from attention_research.signatures import NonNegativeFloat
from attention_research.tokens import PAD


class Rationale:
    """The loss of rationales. `sparsity` is l1 and `coherence` is l2.

    The released code uses 0.0003 for l1 and twice that for l2, and multiplies the error by 10. `baseline` is subtracted
    from the cost in the surrogate. The paper uses `none`. `batch_mean` is the mean cost of the other reviews in the
    batch: the gradient remains unbiased, and in contrast to a moving average there is no state. Switches |z_t -
    z_{t-1}| are counted between words, so a rationale at the beginning of a text has no switch there.
    """

    def __init__(
        self,
        *,
        sparsity: NonNegativeFloat = 0.0003,
        coherence: NonNegativeFloat = 0.0006,
        baseline: Literal["none", "batch_mean"] = "none",
    ):
        self.sparsity, self.coherence, self.baseline = sparsity, coherence, baseline

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of reviews, at least 1."""
        return jnp.maximum(jnp.sum(_reviews(batch)), 1).astype(jnp.float32)

    def loss(
        self, model: Rates, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed cost, summed "squared_error", "selected" words and "switches"). Without a key, there is no sampling
        and no dropout. Raises ConfigError if the model predicts another number of ratings."""
        return self.of_choice(model.read(batch["source"], key=key), batch)

    def of_choice(
        self, read: Mapping[str, Array], batch: Mapping[str, Array]
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """`loss`, given the output of `read` of the model."""
        real, here = batch["source"] != PAD, _reviews(batch)
        dtype = accumulator(read["ratings"].dtype)
        kept = lambda x: jnp.where(here, x.astype(dtype), jnp.zeros((), dtype))
        truth = wanted(batch)
        check_ratings(read["ratings"].shape[1], truth.shape[1])
        error = kept(jnp.sum(jnp.square(read["ratings"].astype(dtype) - truth.astype(dtype)), axis=1))
        words, switches = kept(jnp.sum(read["selected"], axis=1)), kept(counted_switches(read["selected"], real))
        price = self.sparsity * words + self.coherence * switches
        surrogate = jnp.sum(self._surrogate(read["log_probability"], error + price, real, here))
        total = jnp.sum(error + price) + surrogate - jax.lax.stop_gradient(surrogate)
        sums = {"squared_error": error, "selected": words, "switches": switches}
        return total, {name: jax.lax.stop_gradient(jnp.sum(x)) for name, x in sums.items()}

    def _surrogate(self, log_p: Array, cost: Array, real: Array, here: Array) -> Float[Array, "B S"]:
        """(cost - b) log p(z_t) of each word. The baseline b of a review is the mean cost of the n - 1 other reviews.
        Then cost - b is the difference between the cost and the mean of all n reviews, times n / (n - 1)."""
        zero = jnp.zeros((), cost.dtype)
        if self.baseline == "none":
            return reinforce_surrogate(log_p, cost[:, None], zero, real)
        number = jnp.sum(here)
        mean = jnp.sum(cost) / jnp.maximum(number, 1).astype(cost.dtype)
        factor = number.astype(cost.dtype) / jnp.maximum(number - 1, 1).astype(cost.dtype)
        return reinforce_surrogate(log_p, cost[:, None], mean, real) * factor


def wanted(batch: Mapping[str, Any]) -> Float[Array, "B R"]:
    """The true ratings. A label is read as a single rating."""
    return batch["ratings"] if "ratings" in batch else batch["label"][:, None].astype(jnp.float32)


def check_ratings(predicted: int, given: int) -> None:
    """Raises ConfigError if a model predicts another number of ratings than its data have."""
    if predicted != given:
        raise ConfigError(
            f"config.model.num_ratings: expected {given}, the number of ratings of the data; got {predicted}"
        )


def counted_switches(selected: Bool[Array, "B S"], real: Bool[Array, "B S"]) -> Array:
    """sum_t |z_t - z_{t-1}| over neighbouring non-padding words, [B]."""
    return jnp.sum((selected[:, 1:] != selected[:, :-1]) & real[:, 1:] & real[:, :-1], axis=1)


def _reviews(batch: Mapping[str, Array]) -> Bool[Array, "B"]:
    """The mask of the rows with a review. Other rows only fill the batch."""
    return jnp.any(batch["source"] != PAD, axis=1)

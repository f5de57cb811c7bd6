"""Hard attention, Xu et al. 2015 (arXiv 1502.03044), section 4.1: each step samples one location from a softmax.

Sampling has no derivative, so the score is trained with REINFORCE: each step reports the log-probability and the
entropy of its choice, and the baseline is a moving average of the cost. To reduce the variance, training uses the
expected context instead for a random half of the images. The coins that select the images are part of the memory,
because they are fixed for a whole text. Without a key, the most probable location is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.errors import ConfigError
from attention_research.kernels import attend, hard_attention
from attention_research.kernels.selection import attention_entropy, moving_average_baseline
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, prepared
from attention_research.layers.running_statistics import RunningStatistic
from attention_research.signatures import Child, Given


class HardAlignment(AlignmentModule):
    """Hard attention, one step per call. The statistic `baseline` is the moving average of the costs (see `judged`)."""

    reported = ("log_probability", "entropy")

    def __init__(
        self, *, score: Child["score"] = "additive", query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs
    ):
        self.context_width = key_width
        self.score = score(query_width=query_width, key_width=key_width, rngs=rngs)
        self.baseline = RunningStatistic(jnp.zeros((), jnp.float32))

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Prepares the keys and takes the coins [B] of the memory: True where locations are sampled (the default)."""
        rows = memory["hidden"].shape[0]
        coins = memory.get("coins", jnp.ones((rows,), bool))
        nothing = {name: jnp.zeros((rows,), jnp.float32) for name in self.reported}
        return {**prepared(self.score, memory), "coins": coins}, {"reported": nothing}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The value at the sampled location with one-hot weights; where the coin is False, soft attention."""
        if query.shape[1] != 1:
            raise ConfigError(
                "alignment.kind: hard attends one step at a time; use the decoder show_attend_tell or bahdanau"
            )
        scores = self.score(query, fixed["keys"])
        context, weights, log_p = hard_attention(key, scores, fixed["values"], fixed["real"][:, None])
        expected, soft = attend(scores, fixed["values"], fixed["real"])
        drawn = fixed["coins"][:, None]
        entropy = attention_entropy(scores, fixed["real"][:, None])
        reported = {
            "log_probability": jnp.where(drawn, log_p, jnp.zeros_like(log_p))[:, 0],
            "entropy": entropy[:, 0],
        }
        context = jnp.where(drawn[..., None], context, expected)
        return context, jnp.where(drawn[..., None], weights, soft), {"reported": reported}

    def judged(self, cost: Float[Array, "B 1"]) -> tuple[Float[Array, ""], dict[str, Any]]:
        """Returns (the baseline for the costs of this batch, updates with the baseline for the next batch)."""
        before = self.baseline[...]
        return before, {"baseline": moving_average_baseline(before, cost)}

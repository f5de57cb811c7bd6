"""Compares attention weights with the effect of erasing source tokens one at a time, and with gradients.

Erasing (Li, Monroe & Jurafsky 2016) replaces a source token by padding, so that nothing attends to it and no recurrence
reads it; the other tokens keep their positions. Saliency (Simonyan et al. 2014) is the norm of the gradient of a
token's log-probability with respect to a source embedding. Jain & Wallace 2019 and Wiegreffe & Pinter 2019 discuss such
comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.tokens import PAD

from ..static_attention import token_weights

#: The number of attention ranks for which the effect of erasing is reported.
RANKS = 8
#: Sentences with fewer source tokens are too short for ranks.
FEWEST = 4


def source_weights(collected: Mapping[str, Any]) -> Float[Array, "B T S"]:
    """Returns the weights over source tokens from the intermediates of a forward pass.

    They are the alignment of a recurrent decoder, or the cross-attention of a Transformer, averaged over layers and
    heads.
    """
    decoder = collected["decoder"]
    if "alignment" in decoder:
        return decoder["alignment"]
    layers = [
        given["attention_weights"].mean(axis=2)
        for segment in decoder.values()
        if isinstance(segment, Mapping)
        for name, given in segment.items()
        if name.startswith("cross_attention")
    ]
    return jnp.concatenate(layers).mean(axis=0)


def erasure_effects(model: Any, batch: Mapping[str, Array]) -> Float[Array, "B T S"]:
    """At [b, t, j]: how far log p of target token t falls when source token j is erased (negative: it rises)."""
    whole = model.log_likelihood(batch)[0]["log_likelihood"]

    def without(j: Array) -> Array:
        erased = batch["source"].at[:, j].set(PAD)
        return whole - model.log_likelihood({**batch, "source": erased})[0]["log_likelihood"]

    return jnp.moveaxis(jax.lax.map(without, jnp.arange(batch["source"].shape[1])), 0, 2)


def saliency(model: Any, batch: Mapping[str, Array]) -> Float[Array, "B T S"]:
    """At [b, t, j]: the norm of the gradient of log p of target token t by the embedding of source token j."""

    def prices(shift: Array) -> Array:
        shifted = object.__new__(type(model))  # a new model with the same parts, so that the given model is not changed
        vars(shifted).update(vars(model), vocabulary=_Shifted(model.vocabulary, shift))
        return shifted.log_likelihood(batch)[0]["log_likelihood"]

    shift = jnp.zeros_like(model.vocabulary.source(batch["source"]))
    values, pull = jax.vjp(prices, shift)

    def of_token(t: Array) -> Array:
        (gradient,) = pull(jnp.zeros_like(values).at[:, t].set(1.0))
        return jnp.linalg.norm(gradient, axis=-1)

    return jnp.moveaxis(jax.lax.map(of_token, jnp.arange(values.shape[1])), 0, 1)


class _Shifted:
    """A vocabulary that adds an array to the source embeddings. Gradients are taken with respect to this array."""

    def __init__(self, vocabulary: Any, shift: Array):
        self._vocabulary, self._shift = vocabulary, shift

    def source(self, ids: Array) -> Array:
        return self._vocabulary.source(ids) + self._shift

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vocabulary, name)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation, or 0 if one side is constant."""
    found = token_weights.rank_correlation(first, second)
    return 0.0 if math.isnan(found) else found


def _tokens(*given: np.ndarray, source: np.ndarray, target: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields one row over the source tokens for every target token, without padding, of sentences with at least
    `FEWEST` source tokens."""
    for row in range(len(source)):
        real = source[row] != PAD
        if real.sum() >= FEWEST:
            for t in np.flatnonzero(target[row] != PAD):
                yield tuple(values[row, t, real] for values in given)


class Reliance:
    """Accumulates, over batches, comparisons of attention with the effects of erasure and with saliency."""

    def __init__(self) -> None:
        self.most: list[float] = []
        self.random: list[float] = []
        self.by_rank: list[np.ndarray] = []
        self.with_saliency: list[float] = []
        self.with_effect: list[float] = []

    def add(
        self,
        weights: Float[np.ndarray, "B T S"],
        effects: Float[np.ndarray, "B T S"],
        gradients: Float[np.ndarray, "B T S"],
        source: np.ndarray,
        target: np.ndarray,
    ) -> None:
        """Adds a batch. The effect of a random token is the mean over all tokens except the most attended one."""
        given = (np.asarray(values, np.float64) for values in (weights, effects, gradients))
        for weight, effect, gradient in _tokens(*given, source=source, target=target):
            order = np.argsort(-weight, kind="stable")
            self.most.append(effect[order[0]])
            self.random.append(effect[order[1:]].mean())
            ranked = np.full(RANKS, np.nan)
            ranked[: len(order)] = effect[order[:RANKS]]
            self.by_rank.append(ranked)
            self.with_saliency.append(rank_correlation(weight, gradient))
            self.with_effect.append(rank_correlation(weight, effect))

    def summary(self) -> dict[str, Any]:
        """Returns means over target tokens.

        "most_attended" and "random" are the falls of log p; "larger" is how often the former is larger; "with_saliency"
        and "with_erasure" are rank correlations; "by_rank" is the list of falls by rank.
        """
        most, other = np.asarray(self.most), np.asarray(self.random)
        at = [effects[~np.isnan(effects)] for effects in np.stack(self.by_rank, axis=1)]
        return {
            "target_tokens": len(most),
            "most_attended": float(most.mean()),
            "random": float(other.mean()),
            "larger": float((most > other).mean()),
            "with_saliency": float(np.mean(self.with_saliency)),
            "with_erasure": float(np.mean(self.with_effect)),
            "by_rank": [float(effects.mean()) if len(effects) else None for effects in at],
        }


def cut(tokens: np.ndarray) -> np.ndarray:
    """Removes columns in which all rows are padding, and keeps a multiple of 16 columns."""
    longest = max(1, int((np.asarray(tokens) != PAD).any(axis=0).sum()))
    width = min(tokens.shape[1], -(-longest // 16) * 16)
    return np.asarray(tokens)[:, :width]

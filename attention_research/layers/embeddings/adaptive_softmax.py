"""Adaptive softmax, Joulin et al. 2017 (arXiv 1609.04309), over the clusters of Baevski & Auli 2019 (arXiv 1809.10853).

The first cluster is the head. Its softmax is over its own tokens and one class for each other cluster (a tail):

    p(w | h) = p(w | head, h)                       for w in the head
    p(w | h) = p(c | head, h) p(w | c, h)           for w in tail c

A position whose target is in the head needs no tail. Cluster c has a table [n_c e_c] (the head has one more row for
each tail) and, if e_c differs from D, a projection [e_c D]. The same tables embed tokens. As in T5, the scale is
hidden D^-0.5. The clusters of Narang et al. 2021 (arXiv 2102.11972, Table 1) are 2,500 tokens of width 768 (D), 6,000
of width 256, 23,500 of width 64 and 128 of width 768 (T5's sentinels); "without projection", all have width 768.
"""

from __future__ import annotations

import math
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.cross_entropy import chunked_log_likelihood
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.layers.embeddings import distributions
from attention_research.layers.embeddings.adaptive_input import check, embed, tables
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.signatures import Positive, PositiveFloat


class AdaptiveSoftmaxVocabulary(nnx.Module):
    """A vocabulary with an adaptive softmax.

    Parameters: sum_c n_c e_c + e_c D (without e_c D if e_c = D), and e_0 for each tail.

    With `tail_share` 1, likelihoods are exact. With a smaller value, as in the released code (0.25), a tail processes
    only the first ceil(tail_share T) positions of a row whose targets are in it. Further positions do not train the
    tail: their log-likelihood is log p(c) - log n_c. This has the gradient of the released loss, which omits log n_c,
    and does not overestimate the likelihood. `logits`, `log_probabilities` and the smooth likelihood are exact for any
    `tail_share`.

    Raises ValueError if `cluster_sizes` do not add up to the vocabulary size, or if the number of `cluster_widths`
    differs from the number of clusters.

    `cluster_sizes` are n_c, the numbers of tokens of the clusters, and `cluster_widths` are their widths e_c.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        cluster_sizes: tuple[Positive, ...],
        cluster_widths: tuple[Positive, ...],
        tail_share: PositiveFloat = 1.0,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        check(vocabulary_size, cluster_sizes, cluster_widths)
        self.dtype, self.cluster_sizes, self.tail_share = dtype, cluster_sizes, tail_share
        head, *tails = cluster_sizes
        self.clusters = tables((head + len(tails), *tails), cluster_widths, width, rngs)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """log p over the vocabulary, in float32."""
        return jnp.concatenate(self.log_probability_parts(hidden)[0], axis=-1)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return self.logits(hidden)

    def log_probability_parts(self, hidden: Float[Array, "*B D"]) -> tuple[list[Float[Array, "*B _"]], None]:
        """Returns (the log-probabilities of each cluster, None), because several softmaxes have no common log Z."""
        head, *tails = [jax.nn.log_softmax(logits(*cluster.output(hidden))) for cluster in self.clusters]
        size = self.cluster_sizes[0]
        return [head[..., :size], *(head[..., size + i, None] + tail for i, tail in enumerate(tails))], None

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood" and "smooth_log_likelihood", [B T]."""
        values = distributions.log_likelihood(self, hidden, targets)
        if self.tail_share >= 1.0:
            return values
        return {**values, "log_likelihood": self._with_room(hidden, targets)}

    def _with_room(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> Float[Array, "B T"]:
        """log p(c) + log p(w | c); the second term is exact only for positions that their tail processes."""
        targets = as_int32("targets", targets)
        head, *tails = self.clusters
        start, *sizes = self.cluster_sizes
        places = jnp.arange(math.ceil(self.tail_share * targets.shape[1]), dtype=jnp.int32)
        classes, of_tails = targets, jnp.zeros(targets.shape, accumulator(hidden.dtype))
        for i, (tail, size) in enumerate(zip(tails, sizes, strict=True)):
            inside = (targets >= start) & (targets < start + size)
            order = jnp.cumsum(inside, axis=1, dtype=jnp.int32) - 1
            taken = inside[:, None] & (order[:, None] == places[:, None])  # [B P T]
            x = einsum("BPT,BTD->BPD", taken.astype(hidden.dtype), hidden).astype(hidden.dtype)
            own = jnp.sum(jnp.where(taken, (targets - start)[:, None], 0), axis=-1)
            rows, kernel = tail.output(x)
            likelihood, *_ = chunked_log_likelihood(rows.reshape(-1, rows.shape[-1]), kernel, own.reshape(-1))
            found = jnp.einsum("BPT,BP->BT", taken.astype(likelihood.dtype), likelihood.reshape(own.shape))
            of_tails += jnp.where(inside & ~taken.any(axis=1), -math.log(size), found)
            classes = jnp.where(inside, self.cluster_sizes[0] + i, classes)
            start += size
        rows, kernel = head.output(hidden)
        return log_likelihood(rows, kernel, classes)["log_likelihood"] + of_tails

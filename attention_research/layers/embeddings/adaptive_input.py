"""Adaptive input representations, Baevski & Auli 2019 (arXiv 1809.10853), section 3: embedding width by frequency.

The vocabulary is sorted by frequency and split into clusters of contiguous ids. Cluster c with n_c tokens has a table
[n_c e_c] and, if e_c differs from D, a projection [e_c D]. The embedding is E_c[id] P_c. The paper combines it with an
adaptive softmax. In the run of Narang et al. 2021 (arXiv 2102.11972, Table 1), the logits come from the same tables
under one full softmax: (hidden D^-0.5 P_c^T) E_c^T, concatenated over the clusters. Their clusters are 2,500 tokens of
width 768 (D), 6,000 of width 256, and 23,628 of width 64.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings import distributions
from attention_research.layers.embeddings.tables import FactoredTable, Table
from attention_research.layers.embeddings.tied import logits
from attention_research.signatures import Positive


class AdaptiveInputVocabulary(nnx.Module):
    """A vocabulary with clusters of different widths. Parameters: sum_c n_c e_c + e_c D (without e_c D if e_c = D).

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
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        check(vocabulary_size, cluster_sizes, cluster_widths)
        self.dtype, self.cluster_sizes = dtype, cluster_sizes
        self.clusters = tables(cluster_sizes, cluster_widths, width, rngs)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits of all clusters, concatenated, in float32."""
        return jnp.concatenate([logits(*cluster.output(hidden)) for cluster in self.clusters], axis=-1)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_probability_parts(self, hidden: Float[Array, "B D"]) -> tuple[list[Float[Array, "B _"]], Float[Array, "B"]]:
        """Returns (the log-probabilities of each cluster, log Z, the logsumexp of the logits of all clusters)."""
        parts = [logits(*cluster.output(hidden)) for cluster in self.clusters]
        of_parts = jnp.stack([jax.nn.logsumexp(part, axis=-1) for part in parts], axis=-1)
        whole = jax.nn.logsumexp(of_parts, axis=-1, keepdims=True)
        return [part - whole for part in parts], whole[:, 0]

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return distributions.log_likelihood(self, hidden, targets)


def check(vocabulary_size: int, sizes: tuple[int, ...], widths: tuple[int, ...]) -> None:
    """Raises ValueError if the clusters do not cover the vocabulary, or if their sizes and widths differ in number."""
    if sum(sizes) != vocabulary_size:
        raise ValueError(f"cluster_sizes: {sizes} add up to {sum(sizes)}; the vocabulary has {vocabulary_size} tokens")
    if len(widths) != len(sizes):
        raise ValueError(f"cluster_widths: {len(sizes)} clusters and {len(widths)} widths, {widths}")


def tables(rows: tuple[int, ...], widths: tuple[int, ...], width: int, rngs: nnx.Rngs) -> nnx.List:
    """One table per cluster, with a projection if its width is not the model width."""
    return nnx.List(
        Table(n, width, rngs=rngs) if own == width else FactoredTable(n, own, width, rngs=rngs)
        for n, own in zip(rows, widths, strict=True)
    )


def embed(clusters: nnx.List, sizes: tuple[int, ...], ids: Int[Array, "*B"], dtype: str) -> Float[Array, "*B D"]:
    """Embeds each token with the first `sizes[c]` rows of the table of its cluster c."""
    ids = as_int32("ids", ids)
    start, parts = 0, []
    for cluster, size in zip(clusters, sizes, strict=True):
        inside = (ids >= start) & (ids < start + size)
        x = cluster.embed(jnp.where(inside, ids - start, 0), dtype)
        parts.append(jnp.where(inside[..., None], x, jnp.zeros_like(x)))
        start += size
    return sum(parts[1:], parts[0])

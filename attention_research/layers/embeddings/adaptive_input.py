"""Adaptive input representations, Baevski & Auli 2019 (arXiv 1809.10853), section 3: frequent tokens, wide embeddings.

The vocabulary, sorted by frequency, is cut into clusters of contiguous ids; cluster c of n_c tokens has a table
[n_c e_c], and a projection [e_c D] where e_c is not D. Embedding: E_c[id] P_c. The paper has an adaptive softmax with
it; as Narang et al. 2021 (arXiv 2102.11972, Table 1) ran it, the logits are those of the same tables under one full
softmax: (hidden D^-0.5 P_c^T) E_c^T, side by side. Their clusters: 2,500 of width 768 (D), 6,000 of 256, 23,628 of 64.
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
    """sum_c n_c e_c + e_c D parameters (no e_c D where e_c = D); `cluster_sizes` add up to the vocabulary's size.

    Raises ValueError where they do not, or where there is not one of `cluster_widths` for each.
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
        """Embeddings of source tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of target tokens."""
        return embed(self.clusters, self.cluster_sizes, ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """Those of every cluster, in float32."""
        return jnp.concatenate([logits(*cluster.output(hidden)) for cluster in self.clusters], axis=-1)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """log p over the vocabulary, for decoding (all V of them)."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_probability_parts(self, hidden: Float[Array, "B D"]) -> tuple[list[Float[Array, "B _"]], Float[Array, "B"]]:
        """The same, cluster by cluster, and log Z, the log of the sum of exp(logits) over all of them."""
        parts = [logits(*cluster.output(hidden)) for cluster in self.clusters]
        of_parts = jnp.stack([jax.nn.logsumexp(part, axis=-1) for part in parts], axis=-1)
        whole = jax.nn.logsumexp(of_parts, axis=-1, keepdims=True)
        return [part - whole for part in parts], whole[:, 0]

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return distributions.log_likelihood(self, hidden, targets)


def check(vocabulary_size: int, sizes: tuple[int, ...], widths: tuple[int, ...]) -> None:
    """Raises ValueError where clusters do not cover the vocabulary, or not each of them has a width."""
    if sum(sizes) != vocabulary_size:
        raise ValueError(f"cluster_sizes: {sizes} add up to {sum(sizes)}; the vocabulary has {vocabulary_size} tokens")
    if len(widths) != len(sizes):
        raise ValueError(f"cluster_widths: {len(sizes)} clusters and {len(widths)} widths, {widths}")


def tables(rows: tuple[int, ...], widths: tuple[int, ...], width: int, rngs: nnx.Rngs) -> nnx.List:
    """A table for each cluster, in factors where its width is not the model's."""
    return nnx.List(
        Table(n, width, rngs=rngs) if own == width else FactoredTable(n, own, width, rngs=rngs)
        for n, own in zip(rows, widths, strict=True)
    )


def embed(clusters: nnx.List, sizes: tuple[int, ...], ids: Int[Array, "*B"], dtype: str) -> Float[Array, "*B D"]:
    """Each token from the first `sizes[c]` rows of its cluster's table."""
    ids = as_int32("ids", ids)
    start, parts = 0, []
    for cluster, size in zip(clusters, sizes, strict=True):
        inside = (ids >= start) & (ids < start + size)
        x = cluster.embed(jnp.where(inside, ids - start, 0), dtype)
        parts.append(jnp.where(inside[..., None], x, jnp.zeros_like(x)))
        start += size
    return sum(parts[1:], parts[0])

"""Embeddings that do not depend on a task: latent semantic analysis and skip-gram; and the embedding of a word in
context.

The tables can be saved with `numpy.save` and loaded by `layers.embeddings.from_file`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.tokens import EOS
from attention_research.training.fitting import adam, descend

from .token_weights import document_frequency, inverse_document_frequency, tf_idf, unit_length

Tokens = Sequence[np.ndarray]


def latent_semantic_analysis(texts: Tokens, size: int, width: int, *, seed: int = 0, rounds: int = 4) -> np.ndarray:
    """Computes U S [V width] of the truncated singular value decomposition of the term-document TF-IDF matrix.

    The TF-IDF vector of each text has length 1 (Deerwester et al. 1990). The decomposition uses randomized subspace
    iteration (Halko et al. 2011, algorithm 4.4).

    The sign of each column is such that its largest entry is positive.
    """
    idf = inverse_document_frequency(document_frequency(texts, size), len(texts))
    terms, weights = tf_idf(texts, idf)
    terms, weights = jnp.asarray(terms), jnp.asarray(unit_length(weights), jnp.float32)

    @jax.jit
    def to_documents(x: jax.Array) -> jax.Array:  # A^T x
        return jax.lax.map(lambda row: row[1] @ x[row[0]], (terms, weights), batch_size=256)

    @jax.jit
    def to_terms(y: jax.Array) -> jax.Array:  # A y
        def add(total: jax.Array, row: tuple) -> tuple[jax.Array, None]:
            return total.at[row[0]].add(row[1][:, None] * row[2]), None

        return jax.lax.scan(add, jnp.zeros((size, y.shape[1]), jnp.float32), (terms, weights, y))[0]

    oversampled = min(width + 10, size, len(texts))
    basis = jax.random.normal(jax.random.key(seed), (size, oversampled), jnp.float32)
    for _ in range(rounds + 1):
        basis = jnp.linalg.qr(to_terms(to_documents(basis)))[0]
    left, values, _ = jnp.linalg.svd(to_documents(basis).T, full_matrices=False)
    table = np.asarray(basis @ left)[:, :width] * np.asarray(values)[:width]
    signs = np.sign(table[np.abs(table).argmax(axis=0), np.arange(table.shape[1])])
    return np.pad(table * np.where(signs == 0, 1, signs), ((0, 0), (0, width - table.shape[1])))


def skip_gram(
    texts: Tokens, size: int, width: int, *, seed: int = 0, steps: int = 3000, batch_size: int = 4096, window: int = 5,
    negatives: int = 5, subsample: float = 1e-3, learning_rate: float = 0.01,
) -> np.ndarray:  # fmt: skip
    """Trains skip-gram with negative sampling (Mikolov et al. 2013b, equation 4) by Adam; returns the input vectors
    [V width].

    A pair is a random position and another one at most `window` away in the same text. Nearer positions are drawn more
    often, as with a window of random width. Noise words are drawn in proportion to their count to the power 3/4. An
    occurrence of a frequent word is left out with probability 1 - sqrt(subsample / frequency) (equation 5). The
    end-of-sentence symbol is not used.
    """
    texts = [ids[ids != EOS] for ids in texts]
    words = np.concatenate(texts)
    text_of = np.repeat(np.arange(len(texts)), [len(ids) for ids in texts])
    counts = np.bincount(words, minlength=size)
    share = counts / counts.sum()
    kept = np.random.default_rng(seed).random(len(words)) < np.sqrt(subsample / np.maximum(share, 1e-12))[words]
    words, text_of = jnp.asarray(words[kept]), jnp.asarray(text_of[kept])
    noise = jnp.asarray(np.cumsum(counts**0.75) / np.sum(counts**0.75), jnp.float32)

    def loss(tables: dict[str, jax.Array], key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 5)
        center = jax.random.randint(keys[0], (batch_size,), 0, len(words))
        reach = jax.random.randint(keys[1], (batch_size,), 1, window + 1)
        distance = 1 + jnp.floor(jax.random.uniform(keys[2], (batch_size,)) * reach).astype(jnp.int32)
        other = center + jnp.where(jax.random.bernoulli(keys[3], shape=(batch_size,)), distance, -distance)
        inside = jnp.clip(other, 0, len(words) - 1)
        real = (other == inside) & (text_of[inside] == text_of[center])
        wrong = jnp.searchsorted(noise, jax.random.uniform(keys[4], (batch_size, negatives)))
        wrong = jnp.minimum(wrong, size - 1)
        x = tables["input"][words[center]]
        right = jax.nn.log_sigmoid(jnp.sum(x * tables["output"][words[inside]], axis=1))
        against = jnp.sum(jax.nn.log_sigmoid(-jnp.einsum("bd,bkd->bk", x, tables["output"][wrong])), axis=1)
        return -jnp.sum(jnp.where(real, right + against, 0.0)) / jnp.maximum(jnp.sum(real), 1)

    @partial(jax.jit, static_argnums=1)
    def trained(key: jax.Array, steps: int) -> jax.Array:
        start = jax.random.uniform(key, (size, width), jnp.float32, -0.5, 0.5) / width
        tables = {"input": start, "output": jnp.zeros((size, width), jnp.float32)}
        return descend(loss, tables, jax.random.split(key, steps), adam(learning_rate))[0]["input"]

    with jax.numpy_dtype_promotion("standard"):
        return np.asarray(trained(jax.random.key(seed), steps))


def nearest(table: np.ndarray, term: int, count: int) -> list[int]:
    """Returns the terms whose vectors have the largest cosines with the vector of the given term, without that term."""
    unit = unit_length(table)
    order = np.argsort(-(unit @ unit[term]), kind="stable")
    return [int(other) for other in order if other != term][:count]


def in_context(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns the output [S D] of basic self-attention, `softmax(X X^T) X`, for the tokens of a text."""
    x = table[ids].astype(np.float64)
    scores = x @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ x


def principal_components(vectors: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (mean [D], directions of largest variance [count D], projections on them [n count])."""
    mean = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - mean, full_matrices=False)
    directions = directions[:count]
    return mean, directions, (vectors - mean) @ directions.T

"""Token weights: TF-IDF, logistic regression, rank correlations, and the information of a word about a label.

All functions use NumPy on lists of token ids, except the logistic regression, which uses JAX. Document frequencies,
regression weights and embeddings must be fitted on training texts only.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax

Tokens = Sequence[np.ndarray]


def document_frequency(texts: Tokens, size: int) -> np.ndarray:
    """Returns the number of texts [V] that contain each term."""
    distinct = [np.unique(ids) for ids in texts]
    return np.bincount(np.concatenate([np.zeros(0, int), *distinct]), minlength=size)


def inverse_document_frequency(frequency: np.ndarray, documents: int) -> np.ndarray:
    """Computes log(N / df), the formula of the lectures. A term that is in no text is treated as if it were in one
    text.

    scikit-learn's `TfidfTransformer` adds 1 to it (and, unless `smooth_idf=False`, adds one text that contains every
    term), then normalizes each text to length 1 (unless `norm=None`). With both options its output is this plus tf.
    """
    return np.log(documents / np.maximum(frequency, 1))


def tf_idf(texts: Tokens, idf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (terms [n L], weights [n L]): the distinct terms of each text with tf log(N / df), padded with zeros."""
    found = [np.unique(ids, return_counts=True) for ids in texts]
    length = max((len(terms) for terms, _ in found), default=0)
    terms, weights = np.zeros((len(found), length), np.int32), np.zeros((len(found), length))
    for row, (term, count) in enumerate(found):
        terms[row, : len(term)], weights[row, : len(term)] = term, count * idf[term]
    return terms, weights


def unit_length(weights: np.ndarray) -> np.ndarray:
    """Divides each row by its Euclidean length. A row of zeros is not changed."""
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(length == 0, 1, length)


def logistic_regression(
    terms: np.ndarray, weights: np.ndarray, label: np.ndarray, *, size: int, classes: int, penalty: float = 1.0,
    steps: int = 200, tolerance: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Fits (kernel [V C], bias [C]) of multinomial logistic regression on sparse rows, by L-BFGS (Liu & Nocedal 1989).

    Minimizes `sum_i -log softmax(x_i kernel + bias)[label_i] + penalty / 2 |kernel|^2`, the loss of scikit-learn with
    C = 1 / penalty. Stops when the largest gradient is below `tolerance` times the number of rows, or after `steps`.
    """
    rows, values, label = jnp.asarray(terms), jnp.asarray(weights, jnp.float32), jnp.asarray(label)
    penalty = jnp.float32(penalty)

    def objective(parameters: tuple[jax.Array, jax.Array]) -> jax.Array:
        kernel, bias = parameters
        log_p = jax.nn.log_softmax(scores(rows, values, kernel, bias))
        fit = -jnp.sum(jnp.take_along_axis(log_p, label[:, None], axis=1))
        return (fit + penalty / 2 * jnp.sum(kernel**2)) / len(label)

    optimizer = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(objective)

    def step(carry: tuple) -> tuple:
        parameters, state, count, _ = carry
        value, gradient = value_and_gradient(parameters, state=state)
        updates, state = optimizer.update(gradient, state, parameters, value=value, grad=gradient, value_fn=objective)
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(g)) for g in gradient]))
        return optax.apply_updates(parameters, updates), state, count + 1, largest

    def going(carry: tuple) -> jax.Array:
        return (carry[2] < steps) & (carry[3] > tolerance)

    with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
        start = (jnp.zeros((size, classes), jnp.float32), jnp.zeros((classes,), jnp.float32))
        carry = (start, optimizer.init(start), jnp.int32(0), jnp.float32(jnp.inf))
        (kernel, bias), *_ = jax.jit(lambda carry: jax.lax.while_loop(going, step, carry))(carry)
    return np.asarray(kernel), np.asarray(bias)


def scores(terms: jax.Array, weights: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Computes x kernel + bias [n C] for sparse rows x."""
    return jnp.einsum("nl,nlc->nc", weights, kernel[terms]) + bias


def ranks(values: np.ndarray) -> np.ndarray:
    """Returns ranks, beginning with 1. Equal values get the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[place]


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rho: the correlation of the ranks. It is NaN if all values of one side are equal."""
    a, b = (side - side.mean() for side in map(ranks, (first, second)))
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / scale) if scale else float("nan")


def mutual_information(texts: Tokens, label: np.ndarray, *, size: int, classes: int) -> np.ndarray:
    """The mutual information [V], in bits, of the label of a text and whether the text contains a term."""
    present = np.stack([document_frequency([ids for ids, c in zip(texts, label, strict=True) if c == wanted], size)
                        for wanted in range(classes)])  # fmt: skip
    of_class = np.bincount(label, minlength=classes)[:, None]
    joint = np.stack([present, of_class - present]) / len(label)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(joint > 0, joint * np.log2(joint / apart), 0.0).sum(axis=(0, 1))


def occurrence_bits(
    texts: Tokens, label: np.ndarray, *, size: int, classes: int, prior_texts: float = 1.0
) -> np.ndarray:
    """The held-out information [V], in bits, of a term about the label of a text that contains it.

    The shares of the classes given the term are estimated on every second text, with `prior_texts` pseudo-counts
    distributed as the classes. The bits, log2 of this share over the share of the class, are averaged over those other
    texts that contain the term; then the halves are swapped. A term that is missing in one half gets 0. A rare term
    without information gets a negative value, whose size depends on `prior_texts`.
    """
    prior = np.bincount(label, minlength=classes) / len(label)
    halves = [np.arange(len(texts)) % 2 == part for part in (0, 1)]
    counts = [
        np.stack([document_frequency([texts[i] for i in np.flatnonzero(half & (label == c)).tolist()], size)
                  for c in range(classes)], axis=1)
        for half in halves
    ]  # fmt: skip
    bits = np.zeros((2, size))
    for part, (seen, held_out) in enumerate((counts, counts[::-1])):
        share = (seen + prior_texts * prior) / (seen.sum(axis=1, keepdims=True) + prior_texts)
        told = (held_out * np.log2(np.maximum(share, 1e-12) / np.maximum(prior, 1e-12))).sum(axis=1)
        bits[part] = told / np.maximum(held_out.sum(axis=1), 1)
    return bits.mean(axis=0)


def binned(by: np.ndarray, values: np.ndarray, bins: int) -> tuple[list[float], list[float]]:
    """Returns (mean of `by`, mean of `values`) in bins of equal counts, in ascending order of `by`."""
    parts = np.array_split(np.argsort(by, kind="stable"), bins)
    return [float(by[part].mean()) for part in parts], [float(values[part].mean()) for part in parts]


def top_terms(contribution: np.ndarray, count: int) -> list[list[int]]:
    """For each class, the terms with the largest `contribution` [V C] to its score, minus the mean over classes."""
    above = contribution - contribution.mean(axis=1, keepdims=True)
    return [np.argsort(-above[:, c], kind="stable")[:count].tolist() for c in range(contribution.shape[1])]

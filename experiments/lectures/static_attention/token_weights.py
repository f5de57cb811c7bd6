"""What weights tokens carry: TF-IDF by the plain formula, learned weights beside it, and what a word tells of a label.

Everything here is NumPy on lists of token ids, but for the logistic regression, which is JAX. Document frequencies,
regression weights and embeddings are to be fitted on training texts alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax

Tokens = Sequence[np.ndarray]


def document_frequency(texts: Tokens, size: int) -> np.ndarray:
    """[V] in how many texts each term stands."""
    distinct = [np.unique(ids) for ids in texts]
    return np.bincount(np.concatenate([np.zeros(0, int), *distinct]), minlength=size)


def inverse_document_frequency(frequency: np.ndarray, documents: int) -> np.ndarray:
    """log(N / df), the lectures' formula; a term of no text counts as one of a single text.

    scikit-learn's `TfidfTransformer` adds 1 to it (and, unless `smooth_idf=False`, counts one text more, which holds
    every term), then scales each text to length 1 (unless `norm=None`): with both options it gives these plus tf.
    """
    return np.log(documents / np.maximum(frequency, 1))


def tf_idf(texts: Tokens, idf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(terms [n L], weights [n L]): the distinct terms of each text with tf log(N / df), filled up with term 0 at 0."""
    found = [np.unique(ids, return_counts=True) for ids in texts]
    length = max((len(terms) for terms, _ in found), default=0)
    terms, weights = np.zeros((len(found), length), np.int32), np.zeros((len(found), length))
    for row, (term, count) in enumerate(found):
        terms[row, : len(term)], weights[row, : len(term)] = term, count * idf[term]
    return terms, weights


def unit_length(weights: np.ndarray) -> np.ndarray:
    """Each row divided by its Euclidean length; a row of zeros stays."""
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(length == 0, 1, length)


def logistic_regression(
    terms: np.ndarray, weights: np.ndarray, label: np.ndarray, *, size: int, classes: int, penalty: float = 1.0,
    steps: int = 200, tolerance: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(kernel [V C], bias [C]) of multinomial logistic regression on sparse rows, by L-BFGS (Liu & Nocedal 1989).

    Minimises sum_i -log softmax(x_i kernel + bias)[label_i] + penalty / 2 |kernel|^2: scikit-learn's, C = 1 / penalty.
    Stops where the largest gradient is below `tolerance` times the number of rows, at `steps` at the latest.
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
    """x kernel + bias [n C] of sparse rows x."""
    return jnp.einsum("nl,nlc->nc", weights, kernel[terms]) + bias


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[place]


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rho: the correlation of the ranks; nan where all values of a side are equal."""
    a, b = (side - side.mean() for side in map(ranks, (first, second)))
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / scale) if scale else float("nan")


def mutual_information(texts: Tokens, label: np.ndarray, *, size: int, classes: int) -> np.ndarray:
    """[V] in bits, of whether a text holds a term with the text's label: what a term tells, however it is weighted."""
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
    """[V] how many bits about the label a text's holding the term tells, on texts that were not counted.

    The classes' shares given the term are counted on every second text, with `prior_texts` more spread by the classes'
    own shares; the bits, log2 of share over the class's own share, are the mean over the other texts that hold the
    term, and both ways about. A term that one half lacks has 0. A rare term that tells nothing has less than 0: how
    much less, `prior_texts` decides, and with it what this says of rare terms.
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
    """(mean of `by`, mean of `values`) in bins of equally many, from the lowest `by`."""
    parts = np.array_split(np.argsort(by, kind="stable"), bins)
    return [float(by[part].mean()) for part in parts], [float(values[part].mean()) for part in parts]


def top_terms(contribution: np.ndarray, count: int) -> list[list[int]]:
    """For each class the terms with the largest `contribution` [V C] to its score above the mean of the classes."""
    above = contribution - contribution.mean(axis=1, keepdims=True)
    return [np.argsort(-above[:, c], kind="stable")[:count].tolist() for c in range(contribution.shape[1])]

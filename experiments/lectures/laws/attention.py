"""Laws of attention as a function of arrays: scores, softmax, weighted sum (Bahdanau et al. 2015; Vaswani et al. 2017).

The reference implementations are NumPy loops over queries and keys.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.kernels import (
    additive_scores,
    attend,
    dot_product_attention,
    dot_scores,
    general_scores,
    sinusoidal_positions,
)
from attention_research.kernels.scores import concat_scores, cosine_scores, scaled_dot_scores

from .law import Found, Law, gap, largest

B, T, S, D, A, DV = 2, 5, 7, 11, 13, 3
Random = np.random.Generator


def draw(random: Random, *shape: int) -> Array:
    """Draws standard normal numbers in float64."""
    return jnp.asarray(random.standard_normal(shape))


def softmax(scores: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, in NumPy."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def by_hand(scores: Float[Array, "B T S"], values: Float[Array, "B S Dv"]) -> Float[np.ndarray, "B T Dv"]:
    """Attention as a loop over queries and keys, in NumPy."""
    scores, values = np.asarray(scores), np.asarray(values)
    context = np.zeros((*scores.shape[:2], values.shape[-1]))
    for example, query in np.ndindex(*scores.shape[:2]):
        for key, weight in enumerate(softmax(scores[example, query])):
            context[example, query] += weight * values[example, key]
    return context


def all_scores(random: Random) -> dict[str, Array]:
    """Draws queries and keys, and returns their scores [B T S] for every score function."""
    query, keys = draw(random, B, T, D), draw(random, B, S, D)
    return {
        "dot": dot_scores(query, keys),
        "scaled dot": scaled_dot_scores(query, keys),
        "cosine": cosine_scores(query, keys),
        "general": general_scores(query, keys, draw(random, D, D)),
        "additive": additive_scores(query, keys, draw(random, A, D), draw(random, A, D), draw(random, A)),
        "concat": concat_scores(query, keys, draw(random, A, 2 * D), draw(random, A)),
    }


def three_steps(random: Random) -> Found:
    """For every score function, attention is scores, softmax and weighted sum. The fused kernel computes the same."""
    values = draw(random, B, S, DV)
    zero = {
        name: gap(attend(scores, values)[0], by_hand(scores, values)) for name, scores in all_scores(random).items()
    }
    query, keys = draw(random, B, T, 1, D), draw(random, B, S, 1, D)
    scores = scaled_dot_scores(query[:, :, 0], keys[:, :, 0])
    for name in ("reference", "blockwise"):
        fused = dot_product_attention(query, keys, values[:, :, None], implementation=name)[:, :, 0]
        zero[f"kernel, {name}"] = gap(fused, by_hand(scores, values))
    return Found(zero)


def weights_sum(random: Random) -> Found:
    """Weights are in [0, 1] and sum to one over the visible keys. Other keys have weight 0, and so have all keys of a
    query that may attend to nothing."""
    mask = random.random((B, T, S)) < 0.6
    mask[0, 0], mask[0, 1] = False, True
    zero = {}
    for name, scores in all_scores(random).items():
        weights = np.asarray(attend(scores, draw(random, B, S, DV), jnp.asarray(mask))[1])
        sums = np.where(mask.any(axis=-1), 1.0, 0.0)
        outside = max(largest(weights[~mask]), -min(0.0, weights.min()), max(0.0, weights.max() - 1))
        zero[name] = max(gap(weights.sum(axis=-1), sums), float(outside))
    return Found(zero)


def fixed_size(random: Random) -> Found:
    """1, 7 and 101 values give outputs of the same size. Padding does not change the output; another query does."""
    query, shapes, zero = draw(random, B, T, D), set(), {}
    for count in (1, 7, 101):
        keys, values = draw(random, B, count, D), draw(random, B, count, DV)
        context, _ = attend(dot_scores(query, keys), values)
        longer = [jnp.concatenate([x, draw(random, B, 4, x.shape[-1])], axis=1) for x in (keys, values)]
        real = jnp.arange(count + 4)[None].repeat(B, axis=0) < count
        zero[f"padding behind {count}"] = gap(attend(dot_scores(query, longer[0]), longer[1], real)[0], context)
        shapes.add(context.shape)
    zero["sizes"] = float(len(shapes) - 1)
    return Found(zero, {"another query": gap(attend(dot_scores(query + 1, keys), values)[0], context)})


def keys_are_a_set(random: Random) -> Found:
    """Permuting keys together with their values does not change the context, unless positions are added to the keys."""
    query, keys, values = draw(random, B, T, D), draw(random, B, S, D), draw(random, B, S, DV)
    order = np.roll(random.permutation(S), 1)
    order = order if (order != np.arange(S)).any() else order[::-1]
    places = sinusoidal_positions(S, D).astype(keys.dtype)
    of = lambda keys, values: attend(dot_scores(query, keys), values)[0]
    return Found(
        {"shuffled": gap(of(keys[:, order], values[:, order]), of(keys, values))},
        {"shuffled, with positions": gap(of(keys[:, order] + places, values[:, order]), of(keys + places, values))},
    )


def one_output_per_query(random: Random) -> Found:
    """All queries at once give the same as one query at a time, and no output has a gradient from another query."""
    query, keys, values = draw(random, B, T, D), draw(random, B, S, D), draw(random, B, S, DV)
    of = lambda query: attend(scaled_dot_scores(query, keys), values)[0]
    alone = jnp.concatenate([of(query[:, t : t + 1]) for t in range(T)], axis=1)
    jacobian = np.asarray(jax.jacobian(lambda query: of(query)[0])(query))[:, :, 0]  # [T Dv T D]
    across = [largest(jacobian[t, :, u]) for t in range(T) for u in range(T) if t != u]
    own = min(largest(jacobian[t, :, t]) for t in range(T))
    return Found({"one at a time": gap(alone, of(query)), "across queries": max(across)}, {"own query": own})


def output_width(random: Random) -> Found:
    """There are as many outputs as queries, as wide as the values, whatever the width of the keys."""
    zero = {}
    for queries, width, out in ((1, 2, 3), (5, 11, 2), (13, 3, 17)):
        query, keys = draw(random, B, queries, width), draw(random, B, S, width)
        context, _ = attend(dot_scores(query, keys), draw(random, B, S, out))
        zero[f"{queries} queries, {out} wide"] = float(context.shape != (B, queries, out))
    return Found(zero)


def matrix_form(random: Random) -> Found:
    """`softmax(Q K^T / sqrt(D)) V` equals the loop. "times" says how many times as long the loop takes."""
    count, width = 64, 32
    query, keys, values = (draw(random, 1, count, width) for _ in range(3))
    whole = jax.jit(lambda *x: attend(scaled_dot_scores(*x[:2]), x[2])[0])
    first = jax.block_until_ready(whole(query, keys, values))
    started = time.perf_counter()
    jax.block_until_ready(whole(query, keys, values))
    fast = time.perf_counter() - started
    loop, arrays = np.zeros((count, width)), [np.asarray(x[0]) for x in (query, keys, values)]
    started = time.perf_counter()
    for t in range(count):
        exponents = np.exp([arrays[0][t] @ arrays[1][s] / np.sqrt(width) for s in range(count)])
        for s in range(count):
            loop[t] += exponents[s] / exponents.sum() * arrays[2][s]
    return Found({"matrix - loop": gap(first[0], loop)}, said={"times": (time.perf_counter() - started) / fast})


def dot_and_cosine(random: Random) -> Found:
    """Scaling a key changes its dot products but not its cosines. For unit vectors both are equal."""
    query, keys = draw(random, B, T, D), draw(random, B, S, D)
    longer = keys.at[:, 2].multiply(3.0)
    unit = lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    weights = lambda scores: np.asarray(jax.nn.softmax(scores))
    return Found(
        {"cosine, longer key": gap(cosine_scores(query, longer), cosine_scores(query, keys)),
         "unit vectors": gap(dot_scores(unit(query), unit(keys)), cosine_scores(query, keys))},
        {"dot, longer key": gap(weights(dot_scores(query, longer)), weights(dot_scores(query, keys)))},
    )  # fmt: skip


def roles(random: Random) -> Found:
    """Weights do not depend on the values, and the output is linear in the values. Weights depend on the keys."""
    query, keys = draw(random, B, T, D), draw(random, B, S, D)
    one, other = draw(random, B, S, DV), draw(random, B, S, DV)
    of = lambda keys, values: attend(dot_scores(query, keys), values)
    both = of(keys, 2.0 * one - 0.5 * other)[0]
    return Found(
        {"weights, other values": gap(of(keys, one)[1], of(keys, other)[1]),
         "linear in the values": gap(both, 2.0 * of(keys, one)[0] - 0.5 * of(keys, other)[0])},
        {"weights, other keys": gap(of(keys, one)[1], of(keys[:, ::-1], one)[1])},
    )  # fmt: skip


LAWS: dict[str, Law] = {
    "attention-three-steps": three_steps,
    "weights-sum-to-one": weights_sum,
    "fixed-size-from-any-set": fixed_size,
    "keys-permutation-invariant": keys_are_a_set,
    "one-output-per-query": one_output_per_query,
    "output-width-from-values": output_width,
    "matrix-form-equals-loop": matrix_form,
    "dot-against-cosine": dot_and_cosine,
    "query-key-value-roles": roles,
}

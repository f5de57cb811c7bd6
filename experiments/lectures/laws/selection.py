"""Laws of soft and hard attention weights and their derivatives (Xu et al. 2015, section 4)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.kernels import attend, hard_attention
from attention_research.kernels.selection import reinforce_surrogate

from .attention import draw, softmax
from .law import Found, Law, gap, largest

B, T, S, DV = 2, 3, 7, 5
#: The sharpness of a lookup that is hard up to rounding, and of a soft one.
SHARP, SOFT = 1e4, 0.3
STEP = 1e-6
Random = np.random.Generator


def zero_one(random: Random) -> Found:
    """Hard weights are one-hot, and the context is one of the values. Soft weights are strictly between 0 and 1 and sum
    to 1."""
    scores, values = draw(random, B, T, S), draw(random, B, S, DV)
    zero = {}
    for name, key in (("sampled", jax.random.key(int(random.integers(2**31)))), ("argmax", None)):
        context, weights, _ = hard_attention(key, scores, values)
        weights = np.asarray(weights)
        zero[f"{name}, weights"] = gap(np.sort(weights, axis=-1), np.eye(S)[-1] + np.zeros_like(weights))
        chosen = np.take_along_axis(np.asarray(values), weights.argmax(axis=-1)[..., None], axis=1)
        zero[f"{name}, context - a value"] = gap(context, chosen)
    soft = np.asarray(attend(scores, values)[1])
    zero["soft, sums"] = gap(soft.sum(axis=-1), np.ones((B, T)))
    return Found(zero, {"soft, from 0": float(soft.min()), "soft, from 1": float(1 - soft.max())})


def no_gradient(random: Random) -> Found:
    """The gradient with respect to the scores is exactly 0 everywhere through an argmax and through a sample. Through
    soft weights it is not."""
    scores, values, direction = draw(random, B, T, S), draw(random, B, S, DV), draw(random, B, T, DV)
    key = jax.random.key(int(random.integers(2**31)))
    through = lambda layer: largest(jax.grad(lambda scores: jnp.sum(layer(scores) * direction))(scores))
    return Found(
        {"argmax": through(lambda scores: hard_attention(None, scores, values)[0]),
         "sampled": through(lambda scores: hard_attention(key, scores, values)[0])},
        {"soft": through(lambda scores: attend(scores, values)[0])},
    )  # fmt: skip


def smooth(random: Random) -> Found:
    """`d context / d score_j = weight_j (value_j - context)`, which is nowhere 0. The difference from central
    differences is reported too."""
    scores, values, direction = draw(random, 1, 1, S), draw(random, 1, S, DV), draw(random, 1, 1, DV)
    of = lambda scores: jnp.sum(attend(scores, values)[0] * direction)
    gradient = np.asarray(jax.grad(of)(scores))[0, 0]
    weights, rows = softmax(np.asarray(scores))[0, 0], np.asarray(values)[0]
    by_hand = weights * ((rows - weights @ rows) @ np.asarray(direction)[0, 0])
    moved = [(of(scores.at[0, 0, j].add(STEP)) - of(scores.at[0, 0, j].add(-STEP))) / (2 * STEP) for j in range(S)]
    share = float(np.mean(gradient != 0))
    return Found({"gradient - by hand": gap(gradient, by_hand), "places without one": 1 - share},
                 said={"central differences": gap(gradient, moved)})  # fmt: skip


def sharp_lookup(random: Random) -> Found:
    """For a stored key, the soft lookup converges to the value as scores become sharper. The hard lookup has gradient
    0."""
    keys, values = draw(random, S, DV), draw(random, S, DV)
    query, wanted = keys[2], values[2]

    def soft(query: Float[Array, "D"], sharpness: float) -> Float[Array, "D"]:
        scores = -sharpness * jnp.square(keys - query).sum(axis=-1)
        return attend(scores[None, None], values[None])[0][0, 0]

    def hard(query: Float[Array, "D"]) -> Float[Array, "D"]:
        found = jnp.square(keys - query).sum(axis=-1) == 0
        return found.astype(values.dtype) @ values

    return Found(
        {"sharp - stored": gap(soft(query, SHARP), wanted), "table - stored": gap(hard(query), wanted),
         "table, gradient": largest(jax.jacobian(hard)(query))},
        {"soft - stored": gap(soft(query, SOFT), wanted), "soft, gradient": largest(jax.jacobian(soft)(query, SOFT))},
    )  # fmt: skip


def measure_reinforce(*, samples: int, seed: int, **_: Any) -> dict[str, Any]:
    """Compares the mean of `samples` REINFORCE estimates of d E[cost] / d scores with the enumerated gradient.

    "largest_z" is the largest difference in standard errors, "within" the share of scores within two standard errors,
    "share" the norm of the difference divided by that of the gradient, and "variance" the variance of an estimate. Each
    also comes as "_with_baseline", where the mean cost is subtracted.
    """
    with jax.enable_x64(True):
        random = np.random.default_rng(seed)
        scores, costs = draw(random, 1, 1, S), draw(random, S) + 2.0
        expected = lambda scores: jnp.sum(jax.nn.softmax(scores[0, 0]) * costs)
        exact = np.asarray(jax.grad(expected)(scores))[0, 0]
        found: dict[str, Any] = {"exact": exact.tolist()}
        for suffix, baseline in (("", 0.0), ("_with_baseline", float(costs.mean()))):

            def estimate(key: Array, baseline: float = baseline) -> Array:
                def surrogate(scores: Array) -> Array:
                    context, _, log_prob = hard_attention(key, scores, costs[None, :, None])
                    return reinforce_surrogate(log_prob, context[:, :, 0], jnp.asarray(baseline))[0, 0]

                return jax.grad(surrogate)(scores)[0, 0]

            draws = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(seed), samples)))
            error = draws.std(axis=0, ddof=1) / samples**0.5
            z = np.abs(draws.mean(axis=0) - exact) / error
            found[f"largest_z{suffix}"] = float(z.max())
            found[f"within{suffix}"] = float(np.mean(z <= 2))
            found[f"share{suffix}"] = float(np.linalg.norm(draws.mean(axis=0) - exact) / np.linalg.norm(exact))
            found[f"variance{suffix}"] = float(draws.var(axis=0).sum())
        return found


LAWS: dict[str, Law] = {
    "hard-zero-one": zero_one,
    "hard-argmax-gradient-zero": no_gradient,
    "soft-gradient-smooth": smooth,
    "soft-lookup-against-hard": sharp_lookup,
}

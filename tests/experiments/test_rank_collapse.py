"""Distances from the nearest matrix with equal rows against least squares; stacks against attention in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.lectures.nonlinearity.rank_collapse import distance_to_mean, stack_distances
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.block import Block
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.structure import split

B, T, D, N, F = 2, 7, 12, 3, 17


def far(x):
    """|X - 1 x^T| / |X| in float64, with x by least squares."""
    ones = np.ones((x.shape[0], 1))
    nearest = np.linalg.lstsq(ones, x, rcond=None)[0]
    return np.linalg.norm(x - ones @ nearest) / np.linalg.norm(x)


def attended(x, weights):
    """Self-attention of [T D] in float64."""
    heads = lambda name: (x @ weights[f"self_attention.{name}.kernel"]).reshape(len(x), N, D // N)
    query, key, value = map(heads, ("query", "key", "value"))
    scores = np.einsum("tnh,snh->nts", query, key) * (D // N) ** -0.5
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    context = np.einsum("nts,snh->tnh", scores / scores.sum(axis=-1, keepdims=True), value)
    return context.reshape(len(x), D) @ weights["self_attention.output.kernel"]


def forwarded(x, weights):
    return np.maximum(x @ weights["feed_forward.hidden.kernel"], 0) @ weights["feed_forward.output.kernel"]


def test_the_nearest_matrix_of_equal_rows_is_that_of_least_squares():
    x = 3 + np.random.default_rng(0).standard_normal((B, 5, T, D))
    want = [[far(one) for one in row] for row in x]
    np.testing.assert_allclose(distance_to_mean(jnp.asarray(x, jnp.float32)), want, rtol=1e-5)


@pytest.mark.slow
def test_a_stack_has_the_requested_parts():
    """Both parts with residuals in NumPy, with the weights drawn from the keys. Biases are zero at first."""
    key, depth = jax.random.key(3), 3
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32)
    sizes = {"depth": depth, "num_heads": N, "hidden_width": F, "residual": True}
    found = stack_distances(key, jnp.asarray(x), **sizes)
    children = {
        "self_attention": lambda rngs: StandardAttention(width=D, num_heads=N, head_width=None, rngs=rngs),
        "feed_forward": lambda rngs: DenseFeedForward(width=D, hidden_width=F, rngs=rngs),
    }
    steps = (("self_attention", "residual"), ("feed_forward", "residual"))
    want, y = [np.mean([far(one) for one in x])], x.astype(np.float64)
    for own in jax.random.split(key, depth):
        block = Block(steps=steps, children=children, dropout_rate=0.0, rngs=nnx.Rngs(own))
        weights = {name: np.asarray(value, np.float64) for name, value in split(block)[1].items()}
        y = np.stack([one + attended(one, weights) for one in y])
        y = np.stack([one + forwarded(one, weights) for one in y])
        want.append(np.mean([far(one) for one in y]))
    np.testing.assert_allclose(found, want, rtol=1e-4)


@pytest.mark.slow
def test_attention_without_residuals_collapses_to_rank_one():
    x = jnp.asarray(np.random.default_rng(2).standard_normal((B, T, D)), jnp.float32)
    sizes = {"depth": 5, "num_heads": N, "hidden_width": None}
    alone = stack_distances(jax.random.key(4), x, **sizes, residual=False)
    joined = stack_distances(jax.random.key(4), x, **sizes, residual=True)
    assert alone[-1] < 1e-3 and joined[-1] > 0.2 and alone[0] == joined[0]

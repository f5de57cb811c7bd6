"""The product-key memory against a search over all its keys in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.kernels import product_key_search
from attention_research.layers.feed_forward.product_key_memory import ProductKeyMemory
from attention_research.layers.structure import abstract, split

B, T, D, N, H, C, K = 2, 5, 7, 3, 4, 11, 6


def memory(**settings):
    return ProductKeyMemory(width=D, num_keys=C, key_width=2 * H, num_heads=N, knn=K, rngs=nnx.Rngs(0), **settings)


def moved():
    """(a memory with random biases and gains, its parameters in float64)."""
    structure, parameters, _ = split(memory())
    rng = np.random.default_rng(1)
    parameters = {name: np.asarray(x) + 0.3 * rng.standard_normal(x.shape) for name, x in parameters.items()}
    return structure.merge({name: jnp.asarray(x, jnp.float32) for name, x in parameters.items()}), parameters


def searched(p, x):
    """Equations 1 to 3 of the paper over all C^2 keys, each a concatenation of two sub-keys, by exhaustive search."""
    y = np.zeros((B, T, D))
    queries = (x @ p["query.kernel"] + p["query.bias"]).reshape(B, T, N, 2, H)
    deviation = np.sqrt(queries.var(-1, keepdims=True) + 1e-6)
    queries = (queries - queries.mean(-1, keepdims=True)) / deviation * p["norm.scale"] + p["norm.bias"]
    for n in range(N):
        keys = np.array([[*p["keys"][n, 0, i], *p["keys"][n, 1, j]] for i in range(C) for j in range(C)])
        for b, t in np.ndindex(B, T):
            scores = keys @ queries[b, t, n].reshape(-1)
            best = np.argsort(-scores)[:K]
            weights = np.exp(scores[best] - scores[best].max())
            y[b, t] += weights / weights.sum() @ p["table"][best]
    return y


@pytest.mark.slow
def test_the_memory_is_a_softmax_over_the_nearest_of_all_keys():
    module, parameters = moved()
    x = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
    y, aux = jax.jit(lambda x: module(x))(jnp.asarray(x))
    np.testing.assert_allclose(y, searched(parameters, x.astype(np.float64)), atol=2e-5)
    assert aux == {}


def test_the_search_finds_the_best_keys_in_order():
    rng = np.random.default_rng(0)
    query, keys = rng.standard_normal((B, T, N, 2, H)), rng.standard_normal((N, 2, C, H))
    scores, indices = product_key_search(jnp.asarray(query, jnp.float32), jnp.asarray(keys, jnp.float32), knn=K)
    first, second = (np.einsum("btnh,nch->btnc", query[..., half, :], keys[:, half]) for half in (0, 1))
    every = (first[..., :, None] + second[..., None, :]).reshape(B, T, N, C * C)
    np.testing.assert_array_equal(indices, np.argsort(-every, axis=-1)[..., :K])
    np.testing.assert_allclose(scores, -np.sort(-every, axis=-1)[..., :K], atol=1e-5)


@pytest.mark.slow
def test_every_parameter_has_a_gradient_and_only_values_that_were_read():
    module, _ = moved()
    x = jax.random.normal(jax.random.key(0), (B, T, D))
    gradients = jax.jit(jax.grad(lambda module: jnp.sum(jnp.sin(module(x)[0]))))(module)
    assert all(float(jnp.abs(g).max()) > 1e-4 for g in jax.tree.leaves(gradients))
    touched = int(jnp.any(gradients.table[...] != 0, axis=-1).sum())
    assert K <= touched <= min(B * T * N * K, C * C)


def test_parameters_of_table_1():
    """Keys 4 2 512 64, values 512^2 D, queries D 512 + 512, norm 2 64: inferred from Narang et al. 2021."""
    make = lambda rngs: ProductKeyMemory(width=768, rngs=rngs)
    count = sum(math.prod(x.shape) for x in abstract(make)[1].values())
    assert count == 4 * 2 * 512 * 64 + 262144 * 768 + 768 * 512 + 512 + 128


def test_bfloat16_in_bfloat16_out():
    module, parameters = moved()
    x = jax.random.normal(jax.random.key(0), (B, T, D), jnp.bfloat16)
    y = jax.jit(lambda x: module(x)[0])(x)
    assert y.dtype == jnp.bfloat16
    far = np.abs(np.asarray(y, np.float64) - searched(parameters, np.asarray(x, np.float64)))
    assert np.median(far) < 0.05  # a near tie may select another value


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="key_width: expected an even number"):
        ProductKeyMemory(width=D, key_width=3, rngs=nnx.Rngs(0))
    with pytest.raises(ConfigError, match="knn: expected at most num_keys, 4, got 5"):
        ProductKeyMemory(width=D, num_keys=4, knn=5, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="knn: expected from 1 to the number of sub-keys, 11, got 12"):
        product_key_search(jnp.zeros((1, N, 2, H)), jnp.zeros((N, 2, C, H)), knn=12)

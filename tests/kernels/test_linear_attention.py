"""Linear attention and the Performer: the equations, the softmax estimate, chunks and the recurrent form."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, linear_attention, performer_attention
from attention_research.kernels.efficient import (
    elu_features,
    linear_attention_step,
    no_sums,
    orthogonal_features,
    performer_attention_step,
    positive_features,
)

B, T, S, N, K, H, HV, M = 2, 11, 13, 6, 3, 5, 7, 17
REAL = np.arange(S) < np.array([[9], [13]])


def arrays(normal, causal: bool):
    length = T if causal else S
    return normal(B, T, N, H), normal(B, length, K, H), normal(B, length, K, HV)


def quotient64(query, key, value, phi, mask, is_causal):
    """sum_j phi(q_i) . phi(k_j) v_j over sum_j phi(q_i) . phi(k_j), query by query, key by key."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    of_query, of_key = (np.array([[[phi(x) for x in row] for row in b] for b in side]) for side in (query, key))
    out = np.zeros((*query.shape[:3], value.shape[-1]))
    for b, i, n in np.ndindex(query.shape[:3]):
        above, below, head = np.zeros(value.shape[-1]), 0.0, n // (query.shape[2] // key.shape[2])
        for j in range(key.shape[1]):
            if mask[b, j] and not (is_causal and j > i):
                weight = of_query[b, i, n] @ of_key[b, j, head]
                above, below = above + weight * value[b, j, head], below + weight
        out[b, i, n] = above / below
    return out


def elu64(x):
    return np.array([v + 1 if v > 0 else np.exp(v) for v in x])


def favor64(x, features):
    x = x / len(x) ** 0.25
    return np.array([np.exp(w @ x - x @ x / 2) for w in features]) / np.sqrt(len(features))


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_linear_attention_is_the_equation(is_causal, masked, normal):
    inputs = arrays(normal, is_causal)
    mask = jnp.asarray(REAL[:, : inputs[1].shape[1]]) if masked else None
    expected = quotient64(*inputs, elu64, np.ones((B, S), bool) if mask is None else REAL, is_causal)
    for chunk_size in (4, 128):
        got = jax.jit(partial(linear_attention, mask=mask, is_causal=is_causal, chunk_size=chunk_size))(*inputs)
        np.testing.assert_allclose(got, expected, atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_performer_is_the_equation(is_causal, masked, normal):
    inputs, features = arrays(normal, is_causal), normal(M, H)
    mask = jnp.asarray(REAL[:, : inputs[1].shape[1]]) if masked else None
    phi = partial(favor64, features=np.asarray(features, np.float64))
    expected = quotient64(*inputs, phi, np.ones((B, S), bool) if mask is None else REAL, is_causal)
    for chunk_size in (4, 128):
        attend = partial(performer_attention, mask=mask, is_causal=is_causal, chunk_size=chunk_size)
        got = jax.jit(attend)(*inputs, features)
        np.testing.assert_allclose(got, expected, atol=2e-6, rtol=5e-5)


@pytest.mark.parametrize("performer", [False, True], ids=["linear", "performer"])
def test_stepping_equals_the_causal_form_for_keys_of_very_different_scale(performer, normal):
    query, key, value = arrays(normal, True)
    query = query * 0.5
    key = key * jnp.logspace(-1, 1.5, T)[:, None, None]  # exponents to -|k|^2 / 2 = -1,000 and below
    mask = jnp.asarray(REAL[:, :T])
    more = (normal(M, H),) if performer else ()
    whole = performer_attention if performer else linear_attention
    step = performer_attention_step if performer else linear_attention_step
    sums, outputs = no_sums(B, K, M if performer else H, HV), []
    assert sum(x.size for x in sums) == B * K * (sums.features.shape[-1] * (HV + 1) + 1)
    for i in range(T):
        sums, out = jax.jit(step)(sums, query[:, i], key[:, i], value[:, i], *more, mask=mask[:, i])
        outputs.append(out)
    got = jax.jit(partial(whole, is_causal=True, chunk_size=4))(query, key, value, *more, mask=mask)
    assert np.isfinite(got).all() and np.abs(got[:, -1]).max() > 0.1
    np.testing.assert_allclose(got, jnp.stack(outputs, 1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("performer", [False, True], ids=["linear", "performer"])
def test_later_keys_do_not_change_earlier_outputs(performer, normal):
    query, key, value = arrays(normal, True)
    more = (normal(M, H),) if performer else ()
    whole = jax.jit(partial(performer_attention if performer else linear_attention, is_causal=True, chunk_size=4))
    before = whole(query, key, value, *more)
    after = whole(query, key.at[:, 6:].multiply(1e3), value.at[:, 6:].set(1e6), *more)
    np.testing.assert_array_equal(after[:, :6], before[:, :6])
    assert not np.allclose(after[:, 6:], before[:, 6:])


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_gradients_at_very_negative_entries_are_finite_differences(is_causal, normal):
    query, key, value = arrays(normal, is_causal)
    given = {"query": np.array(query[:1, :3]) - 18, "key": np.array(key[:1, :3]) - 20}
    value, weight = np.array(value[:1, :3]), np.random.default_rng(1).standard_normal((1, 3, N, HV))
    loss64 = lambda given: np.sum(weight * quotient64(**given, value=value, phi=elu64, mask=np.ones((1, 3), bool),
                                                      is_causal=is_causal))  # fmt: skip
    loss = lambda given: jnp.sum(weight * linear_attention(**given, value=jnp.asarray(value), is_causal=is_causal))
    found = jax.jit(jax.grad(loss))({name: jnp.float32(x) for name, x in given.items()})
    for name, x in given.items():
        wanted, h = np.zeros(x.shape), 1e-5
        for place in np.ndindex(x.shape):
            ends = []
            for way in (h, -h):
                moved = x.astype(np.float64)
                moved[place] += way
                ends.append(loss64({**given, name: moved}))
            wanted[place] = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(found[name], wanted, atol=1e-4 * np.abs(wanted).max(), err_msg=name)


def test_elu_features_are_elu_plus_one_and_keep_small_numbers():
    x = jnp.asarray([-80.0, -3.0, -1e-3, 0.0, 0.5, 1e30], jnp.float32)
    np.testing.assert_allclose(elu_features(x)[1:], jax.nn.elu(x)[1:] + 1, rtol=1e-6)
    np.testing.assert_allclose(elu_features(x)[0], np.exp(-80.0), rtol=1e-5)
    gradient = jax.vmap(jax.grad(elu_features))(x)
    np.testing.assert_allclose(gradient, np.where(x > 0, 1, np.exp(np.minimum(np.float64(x), 0))), rtol=1e-5)


def test_blocks_of_features_are_orthogonal_and_their_lengths_as_asked():
    chi = orthogonal_features(jax.random.key(0), 13, 5)
    for block in (chi[:5], chi[5:10], chi[10:]):
        gram = np.asarray(block @ block.T)
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-5)
    assert np.linalg.norm(chi, axis=1).std() > 0.1
    constant = orthogonal_features(jax.random.key(0), 13, 5, norms="constant")
    np.testing.assert_allclose(np.linalg.norm(constant, axis=1), np.sqrt(5), rtol=1e-5)
    with pytest.raises(ValueError, match="norms: expected 'chi' or 'constant', got 'other'"):
        orthogonal_features(jax.random.key(0), 13, 5, norms="other")


@pytest.mark.slow
def test_every_row_is_a_standard_normal_vector():
    each = jax.jit(jax.vmap(lambda key: orthogonal_features(key, 7, 5)))
    draws = np.asarray(each(jax.random.split(jax.random.key(1), 3000)))
    error = 1 / np.sqrt(len(draws))  # standard error of a mean; each row and component, signs included
    assert np.abs(draws.mean(0)).max() < 5 * error
    assert np.abs(np.einsum("smi,smj->mij", draws, draws) / len(draws) - np.eye(5)).max() < 5 * np.sqrt(2) * error


@pytest.mark.slow
def test_the_estimate_of_exp_is_unbiased_and_varies_less_with_more_and_with_orthogonal_features():
    q, k = jnp.asarray(np.random.default_rng(2).standard_normal((2, 8)) * 0.4, jnp.float32)
    exact, draws = float(jnp.exp(q @ k)), 4000

    def estimates(number, orthogonal, mirrored=False):
        def one(key):
            draw = orthogonal_features(key, number, 8) if orthogonal else jax.random.normal(key, (number, 8))
            draw = jnp.concatenate([draw, -draw]) if mirrored else draw
            (of_q, log_q), (of_k, log_k) = positive_features(q, draw), positive_features(k, draw)
            return of_q @ of_k * jnp.exp(log_q + log_k)

        return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), draws)), np.float64)

    cases = {case: estimates(*case) for case in [(8, False), (8, True), (32, False), (32, True)]}
    for found in (*cases.values(), mirrored := estimates(8, False, True)):
        assert abs(found.mean() - exact) < 4 * found.std() / np.sqrt(draws)
    spread = {case: found.var() for case, found in cases.items()}
    assert 3 < spread[8, False] / spread[32, False] < 5.3 and 3 < spread[8, True] / spread[32, True] < 5.3
    assert spread[8, True] < 0.85 * spread[8, False] and spread[32, True] < 0.85 * spread[32, False]
    assert mirrored.var() < spread[8, False]  # the hyperbolic estimator


@pytest.mark.slow
def test_with_many_features_the_performer_is_softmax_attention(normal):
    query, key, value = (x * 0.5 for x in arrays(normal, False))
    mask = jnp.asarray(REAL)
    exact = dot_product_attention(query, key, value, mask=mask[:, None, None])
    few, many = (
        np.abs(
            jax.jit(performer_attention)(query, key, value, orthogonal_features(jax.random.key(4), m, H), mask=mask)
            - exact
        )
        for m in (20, 2000)
    )
    assert many.max() < 0.1 and many.mean() < few.mean() / 5


@pytest.mark.slow
def test_memory_is_linear_in_the_length():
    """The temporary memory of a causal value and gradient doubles with the length, far below T^2 floats."""

    def measured(length):
        shapes = [jax.ShapeDtypeStruct((1, length, 1, 8), jnp.float32)] * 3
        loss = lambda q, k, v: linear_attention(q, k, v, is_causal=True, chunk_size=64).sum()
        return jax.jit(jax.grad(loss, (0, 1, 2))).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    short, long = measured(2048), measured(4096)
    assert long < 2.2 * short and long < 4096 * 4096


def test_errors_name_the_axis(normal, unchecked):
    query, key, value = arrays(normal, False)
    with pytest.raises(ValueError, match="key: axis T of .* expected 11 as in query, got 13"):
        linear_attention(query, key, value, is_causal=True)
    with pytest.raises(ValueError, match="key: axis K of .* divisor of the query's 6 heads, got 4"):
        linear_attention(query, normal(B, S, 4, H), normal(B, S, 4, HV))
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        linear_attention(query, key, value, chunk_size=0)
    with pytest.raises(ValueError, match=r"features: expected \[M H\] with H = 5, got shape \[17, 4\]"):
        performer_attention(query, key, value, normal(M, 4))
    with pytest.raises(ValueError, match="scale: expected more than 0, got 0"):
        performer_attention(query, key, value, normal(M, H), scale=0)


@pytest.mark.parametrize("norms", ["chi", "constant"])
def test_features_of_16_bits_are_those_of_32_rounded(norms):
    half, wide = (orthogonal_features(jax.random.key(0), 5, 3, norms=norms, dtype=d) for d in ("bfloat16", "float32"))
    np.testing.assert_array_equal(half, wide.astype(jnp.bfloat16))

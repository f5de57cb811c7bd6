"""Sinkhorn attention: the balancing, the equation block by block, and the limits of sharp and causal permutations."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.efficient import block_summaries, sinkhorn, sinkhorn_attention

B, T, N, K, H, HV, P = 2, 23, 6, 3, 5, 7, 4
C = 6
REAL = (np.arange(T) < np.array([[17], [23]])) & (np.arange(T) != 5)  # one example has a whole block of padding


@pytest.fixture
def arrays(normal):
    return normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV), normal(B, K, C, C)


def sinkhorn64(scores, real, iterations, is_causal, temperature=1.0):
    """exp(R), then each entry divided by its row's sum and its column's sum (causal: the column down to the row)."""
    blocks = len(scores)
    there = np.array(
        [[bool(real[b] and real[c] and not (is_causal and c >= b)) for c in range(blocks)] for b in range(blocks)]
    )
    s = np.exp(np.asarray(scores, np.float64) / temperature) * there
    for _ in range(iterations):
        s = np.array([row / row.sum() if row.sum() else row for row in s])
        before = s.copy()
        for b, c in np.ndindex(blocks, blocks):
            column = before[: b + 1, c].sum() if is_causal else before[:, c].sum()
            s[b, c] = before[b, c] / column if column else 0
    return s


def attention64(query, key, value, scores, mask, iterations, is_causal, combine):
    """Each query attends to its own block and the mixture of blocks, token by token."""
    query, key, value, scores = (np.asarray(x, np.float64) for x in (query, key, value, scores))
    out, mask = np.zeros((B, T, N, HV)), np.asarray(mask)
    for b, n in np.ndindex(B, N):
        head = n // (N // K)
        real = np.array([j < T and bool(mask[b, j]) for j in range(C * P)])
        blocks = real.reshape(C, P).any(1)
        weights = sinkhorn64(scores[b, head], blocks, iterations, is_causal)
        for i in range(T):
            mine, place = divmod(i, P)
            own = [(key[b, j, head], value[b, j, head]) for j in range(mine * P, mine * P + P)
                   if real[j] and not (is_causal and j > i)]  # fmt: skip
            mixed = []
            for p in range(P):
                parts = [(weights[mine, c], c * P + p) for c in range(C)
                         if real[c * P + p] and blocks[mine] and not (is_causal and c >= mine)]  # fmt: skip
                if parts:
                    mixed.append(tuple(sum(w * x[b, j, head] for w, j in parts) for x in (key, value)))
            for pairs in [mixed + own] if combine == "joint" else [mixed, own]:
                if pairs:
                    e = np.exp([query[b, i, n] @ k / np.sqrt(H) for k, _ in pairs])
                    out[b, i, n] += sum(w * v for w, (_, v) in zip(e / e.sum(), pairs, strict=True))
    return out


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_balancing_is_division_by_sums(is_causal, normal):
    scores, real = 3 * normal(B, K, C, C), np.array([[True, False, True, True, True, False], [True] * 6])
    got = jax.jit(partial(sinkhorn, iterations=3, temperature=0.7, mask=jnp.asarray(real), is_causal=is_causal))(scores)
    for b, k in np.ndindex(B, K):
        np.testing.assert_allclose(got[b, k], sinkhorn64(scores[b, k], real[b], 3, is_causal, 0.7), atol=1e-6)


@pytest.mark.slow
def test_many_iterations_give_a_doubly_stochastic_matrix_and_a_low_temperature_a_permutation(normal):
    scores = normal(B, K, C, C)
    soft = jax.jit(partial(sinkhorn, iterations=50))(scores)
    np.testing.assert_allclose(soft.sum(-1), 1, atol=1e-4)
    np.testing.assert_allclose(soft.sum(-2), 1, atol=1e-4)
    order = np.random.default_rng(0).permutation(C)
    sharp = jax.jit(partial(sinkhorn, temperature=0.1, iterations=20))(scores + 20 * jnp.eye(C)[order])
    np.testing.assert_allclose(sharp, np.broadcast_to(np.eye(C)[order], sharp.shape), atol=1e-6)
    assert np.isfinite(jax.jit(jax.grad(lambda s: sinkhorn(s, temperature=1e-3).sum()))(scores)).all()


def test_gumbel_noise_is_added_to_the_scores(normal):
    scores, key = normal(B, K, C, C), jax.random.key(0)
    noise = jax.random.gumbel(key, scores.shape)
    balance = jax.jit(sinkhorn)
    noisy = jax.jit(lambda s, key: sinkhorn(s, random_key=key))(scores, key)
    np.testing.assert_allclose(noisy, balance(scores + noise), atol=1e-6)
    assert not np.allclose(noisy, balance(scores), atol=1e-2)


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    "combine, masked", [pytest.param("joint", False, marks=pytest.mark.slow), ("joint", True), ("sum", True)]
)
def test_sinkhorn_attention_is_the_equation(combine, masked, is_causal, arrays):
    mask = REAL if masked else np.ones((B, T), bool)
    attend = partial(sinkhorn_attention, block_size=P, iterations=3, is_causal=is_causal, combine=combine)
    got = jax.jit(attend)(*arrays, mask=jnp.asarray(mask) if masked else None)
    np.testing.assert_allclose(got, attention64(*arrays, mask, 3, is_causal, combine), atol=3e-6)


@pytest.mark.slow
def test_a_sharp_permutation_is_attention_to_one_other_block(arrays):
    query, key, value, _ = (x[:, :20] for x in arrays)
    order = np.array([3, 0, 4, 1, 2])
    scores = jnp.broadcast_to(50 * jnp.eye(5)[order], (B, K, 5, 5))
    block = np.arange(20) // P
    mask = (block[None] == block[:, None]) | (block[None] == order[block][:, None])
    got = jax.jit(partial(sinkhorn_attention, block_size=P))(query, key, value, scores)
    np.testing.assert_allclose(
        got, dot_product_attention(query, key, value, mask=jnp.asarray(mask)[None, None]), atol=3e-6
    )


@pytest.mark.slow
def test_one_block_is_full_attention(arrays):
    query, key, value, scores = arrays
    got = jax.jit(partial(sinkhorn_attention, block_size=29))(query, key, value, scores[:, :, :1, :1])
    np.testing.assert_allclose(got, dot_product_attention(query, key, value), atol=3e-6)


@pytest.mark.slow
def test_causal_outputs_ignore_scores_of_later_blocks(arrays):
    *inputs, scores = arrays
    attend = jax.jit(partial(sinkhorn_attention, block_size=P, is_causal=True))
    out, pull = jax.vjp(lambda s: attend(*inputs, s), scores)
    (gradient,) = jax.jit(pull)(jnp.zeros_like(out).at[:, 3 * P : 4 * P].set(1.0))
    assert not np.any(gradient[:, :, 4:]) and np.any(gradient[:, :, 3]) and np.any(gradient[:, :, 2])
    later = attend(*inputs, scores.at[:, :, 4:].set(1e6))
    np.testing.assert_array_equal(later[:, : 4 * P], out[:, : 4 * P])


def test_block_summaries_are_sums_and_causal_ones_see_no_more_than_the_first_position(normal):
    x, mask = normal(B, T, H), jnp.asarray(REAL)
    clean = np.where(REAL[:, :, None], x, 0)
    np.testing.assert_allclose(
        jax.jit(block_summaries, static_argnums=1)(x, P, mask=mask),
        [[e[c * P : (c + 1) * P].sum(0) for c in range(C)] for e in clean],
        atol=1e-5,
    )
    causal = block_summaries(x, P, mask=mask, is_causal=True)
    np.testing.assert_allclose(causal, [[e[: c * P + 1].sum(0) for c in range(C)] for e in clean], atol=1e-5)


def test_errors_name_the_argument(arrays, unchecked):
    query, key, value, scores = arrays
    with pytest.raises(ValueError, match="combine: expected 'joint' or 'sum', got 'other'"):
        sinkhorn_attention(*arrays, block_size=P, combine="other")
    with pytest.raises(ValueError, match=r"scores: axis 5 of \[B K 5 5\]: expected 5, got 6"):
        sinkhorn_attention(*arrays, block_size=5)
    with pytest.raises(ValueError, match="block_size: expected at least 1, got 0"):
        sinkhorn_attention(*arrays, block_size=0)


def test_settings_without_a_meaning_are_refused():
    scores = jnp.zeros((1, 1, 2, 2))
    with pytest.raises(ValueError, match="temperature: expected more than 0, got 0"):
        sinkhorn(scores, temperature=0.0)
    with pytest.raises(ValueError, match="iterations: expected at least 0, got -1"):
        sinkhorn(scores, iterations=-1)

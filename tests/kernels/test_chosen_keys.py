"""Attention to chosen keys or blocks (MoBA, NSA, DSA) against float64 loops over whole examples, in packed rows.

By hand, also against jla.ops.moba and jla.ops.sparse_attention of jax-linear-attention 0.1.0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.variants import (
    index_loss,
    indexed_attention,
    moba_attention,
    native_sparse_attention,
)
from tests.kernels.test_logit_terms import PACKED, SEGMENTS, logits64
from tests.kernels.test_variants import HV, B, K, N, T, heads, softmax, wide

M, WIDTH, TOP = 2, 7, 3
MASK = jnp.asarray(PACKED)[:, None]


def examples():
    """(row, positions of one example) for every packed example."""
    return [(b, np.flatnonzero(SEGMENTS[b] == one)) for b in range(B) for one in range(1, SEGMENTS[b].max() + 1)]


def moba64(logits, size, top_k):
    """The weights of one example and head [t t]."""
    weights = np.zeros_like(logits)
    for i in range(len(logits)):
        past = {n: logits[i, n * size : (n + 1) * size].mean() for n in range(i // size)}
        chosen = sorted(past, key=past.get)[::-1][: top_k - 1] + [i // size]
        seen = [j for j in range(i + 1) if j // size in chosen]
        weights[i, seen] = softmax(logits[i, seen])
    return weights


def native64(logits, gates, size, num_blocks, window):
    """The weights of one example and the heads of one group [G t t], with gates [G t 3]."""
    weights = np.zeros_like(logits)
    for i in range(logits.shape[1]):
        whole = (i + 1) // size  # complete blocks
        means = logits[:, i, : whole * size].reshape(len(logits), whole, size).mean(-1)
        shares = np.array([softmax(row) for row in means]) if whole else means
        order = [i // size] + [n for n in (i // size - 1, 0) if 0 <= n < i // size]
        order += [n for n in np.argsort(-shares.sum(0)) if n not in order]
        for g in range(len(logits)):
            weights[g, i, : whole * size] += gates[g, i, 0] * np.repeat(shares[g], size) / size
            chosen = list(dict.fromkeys(order))[:num_blocks]
            for branch, seen in (
                (1, [j for j in range(i + 1) if j // size in chosen]),
                (2, list(range(max(0, i - window), i + 1))),
            ):
                weights[g, i, seen] += gates[g, i, branch] * softmax(logits[g, i, seen])
    return weights


def indexed64(logits, scores, top_k):
    weights = np.zeros_like(logits)
    for i in range(len(logits)):
        seen = np.argsort(-scores[i, : i + 1], kind="stable")[:top_k]
        weights[i, seen] = softmax(logits[i, seen])
    return weights


def gather(weights_of, query, key, value):
    """weights_of(example's row, positions, logits [N t t]) -> [N t t], applied to the values."""
    logits, value = logits64(query, key), np.asarray(value, np.float64)
    out = np.zeros((B, T, N, HV))
    for b, at in examples():
        weights = weights_of(b, at, logits[b][:, at][:, :, at])
        for n in range(N):
            out[b, at, n] = weights[n] @ value[b, at, n // (N // K)]
    return out


@pytest.mark.parametrize("size, top_k", [(2, 2), (3, 1)])
def test_moba_is_the_loop_over_blocks(size, top_k, normal):
    inputs = heads(normal, T, T)
    expected = gather(lambda b, at, logits: [moba64(one, size, top_k) for one in logits], *inputs)
    got = jax.jit(lambda *x: moba_attention(*x, MASK, block_size=size, top_k=top_k))(*inputs)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("size, num_blocks, window", [(2, 2, 1), (3, 3, 0)])
def test_native_sparse_attention_is_the_loop_over_branches(size, num_blocks, window, normal):
    inputs, gates = heads(normal, T, T), normal(B, T, N, 3)

    def weights_of(b, at, logits):
        own = np.moveaxis(np.float64(gates[b, at]), 1, 0)
        groups = [slice(k * (N // K), (k + 1) * (N // K)) for k in range(K)]
        return np.concatenate([native64(logits[g], own[g], size, num_blocks, window) for g in groups])

    sizes = dict(block_size=size, num_blocks=num_blocks, window=window)
    got = jax.jit(lambda *x: native_sparse_attention(*x, MASK, **sizes))(*inputs, gates)
    np.testing.assert_allclose(got, gather(weights_of, *inputs), atol=2e-5)


def test_indexed_attention_is_the_loop_over_the_best_keys(normal):
    inputs = heads(normal, T, T)
    index = normal(B, T, M, WIDTH), normal(B, T, WIDTH), jnp.abs(normal(B, T, M)) + 0.1
    q, k, w = wide(*index)
    # Scores of 0, which relu makes, are ties: both sides take the first key.
    scores = np.einsum("bthi,bsi->bhts", q, k) / np.sqrt(WIDTH)
    scores = np.einsum("bhts,bth->bts", np.maximum(scores, 0), w)

    def weights_of(b, at, logits):
        return [indexed64(one, scores[b][at][:, at], TOP) for one in logits]

    got = jax.jit(lambda *x: indexed_attention(*x, MASK, top_k=TOP))(*inputs, *index)
    np.testing.assert_allclose(got, gather(weights_of, *inputs), atol=1e-5)


@pytest.mark.slow
def test_all_blocks_or_keys_are_plain_causal_attention(normal):
    inputs = heads(normal, T, T)
    index = normal(B, T, M, WIDTH), normal(B, T, WIDTH), normal(B, T, M)
    plain = dot_product_attention(*inputs, mask=MASK, is_causal=True)
    np.testing.assert_allclose(moba_attention(*inputs, MASK, block_size=2, top_k=6), plain, atol=1e-6)
    np.testing.assert_allclose(indexed_attention(*inputs, *index, MASK, top_k=T), plain, atol=1e-6)
    selected = jnp.broadcast_to(jnp.array([0, 1.0, 0]), (B, T, N, 3))
    sizes = dict(block_size=2, num_blocks=6, window=0)
    np.testing.assert_allclose(native_sparse_attention(*inputs, selected, MASK, **sizes), plain, atol=1e-6)


def test_the_index_loss_is_a_divergence_that_trains_the_indexer_only(normal):
    scores, logits = normal(B, T, T), normal(B, N, T, T)
    seen = PACKED & np.tri(T, dtype=bool)
    weights = jax.nn.softmax(jnp.where(jnp.asarray(seen)[:, None], logits, -1e9), axis=-1)
    call = jax.jit(jax.value_and_grad(lambda *x: index_loss(*x, jnp.asarray(seen)[:, None]).sum(), (0, 1)))
    loss, (gradient, through) = call(scores, weights)
    expected, p = 0.0, np.zeros((B, T, T))
    for b, i in np.ndindex(B, T):
        at = np.flatnonzero(seen[b, i])
        if len(at):
            target = np.float64(weights)[b, :, i, at].sum(1)
            target, share = target / target.sum(), softmax(np.float64(scores)[b, i, at])
            expected += (target * np.log(target / share)).sum()
            p[b, i, at] = share - target
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, p, atol=1e-6)
    assert not np.any(through)

"""Structural positions against walks through the tree, and their attention against the double loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import relative_attention
from attention_research.kernels.positions import (
    structural_attention,
    structural_depths,
    structural_distances,
    structural_encoding,
)
from tests.kernels.conftest import softmax64

B, T, S, N, K, H, HV = 2, 11, 13, 6, 3, 5, 7


def path(heads: list[int], word: int) -> list[int]:
    """The word and its ancestors, by walking up the tree."""
    walked = [word]
    while heads[walked[-1]] not in (-1, walked[-1]):
        walked.append(heads[walked[-1]])
    return walked


def distance(heads: list[int], i: int, j: int) -> int:
    """Wang et al. 2019, section 3: a difference on one dependency path, otherwise a sum with the sign of word order."""
    of, to = path(heads, i), path(heads, j)
    if i in to or j in of:
        return len(to) - len(of)
    return (len(to) - 1 + len(of) - 1) * (1 if j > i else -1)


def random_tree(random, length: int, own: bool) -> list[int]:
    order, heads = random.permutation(length), [0] * length
    for n, word in enumerate(order):
        root = int(word) if own else -1
        heads[word] = root if n == 0 or random.random() < 0.05 else int(order[random.integers(n)])
    return heads


TREES = {
    "chain": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1],
    "chain_of_left_heads": [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "star": [5, 5, 5, 5, 5, -1, 5, 5, 5, 5, 5],
    "one_word": [-1],
    "two_words": [1, 1],
    "random": random_tree(np.random.default_rng(0), 11, own=False),
    "random_with_own_roots": random_tree(np.random.default_rng(1), 17, own=True),
    "forest": [-1, 0, 1, -1, 3, 3, -1],
}


@pytest.mark.parametrize("heads", TREES.values(), ids=TREES)
def test_depths_and_distances_are_those_of_a_walk(heads):
    words = range(len(heads))
    given = jnp.asarray([heads, heads])
    depths, distances = jax.jit(lambda x: (structural_depths(x), structural_distances(x)))(given)
    assert depths[1].tolist() == [len(path(heads, i)) - 1 for i in words]
    assert distances[1].tolist() == [[distance(heads, i, j) for j in words] for i in words]


def test_the_distances_of_a_sentence():
    """The(1) cat(2) sat <- on(2) <- it(3): heads of "The cat sat on it". One path, two branches and their sides."""
    heads = jnp.array([[1, 2, -1, 2, 3]])
    assert structural_depths(heads).tolist() == [[2, 1, 0, 1, 2]]
    got = structural_distances(heads)[0]
    assert got[0].tolist() == [0, -1, -2, 3, 4]  # up to cat, up to sat, then right across the root
    assert got[4].tolist() == [-4, -3, -2, -1, 0]


@pytest.mark.slow
def test_trees_of_a_batch_do_not_mix():
    chain, star = TREES["chain"], TREES["star"]
    both = structural_distances(jnp.asarray([chain, star]))
    np.testing.assert_array_equal(both[0], structural_distances(jnp.asarray([chain]))[0])
    np.testing.assert_array_equal(both[1], structural_distances(jnp.asarray([star]))[0])


def test_heads_outside_of_the_sentence_are_roots():
    assert structural_depths(jnp.array([[7, 0, -3]])).tolist() == [[0, 1, 0]]


def arrays(normal):
    random = np.random.default_rng(2)
    distances = jnp.asarray(random.integers(-5, 6, (B, T, S)), jnp.int32)
    mask = jnp.asarray(random.random((B, 1, T, S)) < 0.7)
    return (normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, HV)), distances, normal(7, H), normal(5, HV), mask


@pytest.mark.parametrize("with_values", [True, False])
def test_structural_attention_is_the_equation(with_values, normal):
    inputs, distances, key_table, value_table, mask = arrays(normal)
    got = jax.jit(structural_attention)(*inputs, distances, key_table, value_table if with_values else None, mask=mask)
    query, key, value, of_key, of_value = (np.asarray(x, np.float64) for x in (*inputs, key_table, value_table))
    logits, distances = np.zeros((B, N, T, S)), np.asarray(distances)
    for b, n, i, j in np.ndindex(*logits.shape):
        row = min(max(int(distances[b, i, j]), -3), 3) + 3
        logits[b, n, i, j] = query[b, i, n] @ (key[b, j, n // 2] + of_key[row]) / np.sqrt(H)
    weights = softmax64(logits, np.broadcast_to(mask, logits.shape))
    expected = np.zeros((B, T, N, HV))
    for b, n, i, j in np.ndindex(*logits.shape):
        row = min(max(int(distances[b, i, j]), -2), 2) + 2
        expected[b, i, n] += weights[b, n, i, j] * (value[b, j, n // 2] + with_values * of_value[row])
    np.testing.assert_allclose(got, expected, atol=5e-6, rtol=5e-5)


@pytest.mark.slow
def test_a_chain_or_distances_of_word_order_are_shaws_attention(normal):
    query, key, value = normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV)
    tables = normal(7, H), normal(5, HV)
    order = jnp.arange(T, dtype=jnp.int32)[None, :] - jnp.arange(T, dtype=jnp.int32)[:, None]
    chain = structural_distances(jnp.asarray([TREES["chain_of_left_heads"]] * B))
    np.testing.assert_array_equal(chain[0], order)
    expected = relative_attention(query, key, value, *tables)
    np.testing.assert_allclose(structural_attention(query, key, value, chain, *tables), expected, atol=5e-6)


def test_no_tensor_of_queries_keys_and_width_is_formed(normal):
    inputs, distances, key_table, value_table, _ = arrays(normal)
    attend = lambda *x: structural_attention(*x[:3], distances, *x[3:]).sum()
    jaxpr = jax.make_jaxpr(jax.grad(attend, (0, 1, 2, 3, 4)))(*inputs, key_table, value_table).jaxpr
    shapes = [set(result.aval.shape) for equation in jaxpr.eqns for result in equation.outvars]
    assert any({T, S} <= shape for shape in shapes)
    assert not any({T, S} <= shape and {H, HV} & shape for shape in shapes)


def test_the_absolute_encoding_is_a_tanh_of_two_projections(normal):
    sequential, structural, of_order, of_depth = normal(1, T, 3), normal(B, T, 7), normal(3, 5), normal(7, 5)
    expected = np.zeros((B, T, 5))
    got = structural_encoding(sequential, structural, of_order, of_depth)
    sequential, structural, of_order, of_depth = map(np.asarray, (sequential, structural, of_order, of_depth))
    for b, t, d in np.ndindex(B, T, 5):
        total = sum(float(sequential[0, t, p]) * float(of_order[p, d]) for p in range(3))
        expected[b, t, d] = np.tanh(total + sum(float(structural[b, t, q]) * float(of_depth[q, d]) for q in range(7)))
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_errors_name_the_axis(normal, unchecked):
    inputs, distances, key_table, value_table, _ = arrays(normal)
    with pytest.raises(ValueError, match=r"distances: axis S of \[B T S\]: expected 13 as in key, got 12"):
        structural_attention(*inputs, distances[..., :12], key_table)
    with pytest.raises(ValueError, match="value_table: expected an odd number of rows, 2k\\+1, got 4"):
        structural_attention(*inputs, distances, key_table, value_table[:4])

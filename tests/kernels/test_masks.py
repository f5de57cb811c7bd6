"""Masks: the pairs that each one allows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import causal_mask, combine_masks, padding_mask, segment_mask, window_mask

T, S = 5, 7


def pairs(rule) -> np.ndarray:
    """[T S] array of rule(i, j)."""
    return np.array([[rule(i, j) for j in range(S)] for i in range(T)])


@pytest.mark.parametrize(
    "mask, rule",
    [
        (causal_mask(T, S), lambda i, j: j <= i),
        (window_mask(T, S, 2), lambda i, j: abs(i - j) <= 2),
        (window_mask(T, S, (3, 1)), lambda i, j: i - 3 <= j <= i + 1),
        (window_mask(T, S, 0), lambda i, j: i == j),
    ],
    ids=["causal", "window", "window_left_right", "itself"],
)
def test_a_position_mask_equals_its_rule(mask, rule):
    assert mask.shape == (1, 1, T, S) and mask.dtype == jnp.bool_
    np.testing.assert_array_equal(mask[0, 0], pairs(rule))


@pytest.mark.parametrize("window", [np.int64(2), (np.int64(2), np.int64(2))], ids=["one", "two"])
def test_a_window_may_be_numpys(window, unchecked):
    np.testing.assert_array_equal(window_mask(T, S, window), window_mask(T, S, 2))


def test_segments_keep_packed_examples_apart_and_padding_out():
    query, key = np.array([[1, 1, 2, 2, 0]]), np.array([[1, 2, 2, 3, 0, 0, 1]])
    mask = segment_mask(jnp.asarray(query), jnp.asarray(key))
    assert mask.shape == (1, 1, T, S)
    np.testing.assert_array_equal(mask[0, 0], pairs(lambda i, j: query[0, i] == key[0, j] and key[0, j] != 0))
    assert not mask[0, 0, 4].any()


def test_padding_is_hidden_from_all_queries():
    real = jnp.array([[True, True, False], [True, False, False]])
    mask = padding_mask(real)
    assert mask.shape == (2, 1, 1, 3)
    np.testing.assert_array_equal(mask[:, 0, 0], real)


def test_combining_is_a_conjunction_and_none_allows_all():
    padding = padding_mask(jnp.array([[True] * 6 + [False], [True] * 7]))
    both = combine_masks(None, causal_mask(T, S), None, padding)
    assert both.shape == (2, 1, T, S)
    np.testing.assert_array_equal(both, np.asarray(causal_mask(T, S)) & np.asarray(padding))
    assert combine_masks() is None and combine_masks(None, None) is None


def test_errors_name_what_is_wrong(unchecked):
    with pytest.raises(ValueError, match=r"mask: expected 4 axes \[B N T S\], got shape \[5, 7\]"):
        combine_masks(causal_mask(T, S)[0, 0])
    with pytest.raises(ValueError, match="window: expected .* at least 0, got -1"):
        window_mask(T, S, -1)

"""Fixtures of the kernel tests: float64 NumPy attention (the oracle), random arrays, runs without shape checks."""

from __future__ import annotations

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest


@pytest.fixture
def unchecked():
    """Runs kernels as users do, without the shape checks of the tests' import hook, so that their own errors appear."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def normal():
    """normal(*shape) -> a float32 array, different at each call."""
    random = np.random.default_rng(0)
    return lambda *shape: jnp.asarray(random.standard_normal(shape), jnp.float32)


def softmax64(logits: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Softmax over the visible entries of the last axis, row by row. A row without visible entries is 0."""
    weights = np.zeros_like(logits)
    for index in np.ndindex(*logits.shape[:-1]):
        seen = visible[index]
        if seen.any():
            exponentials = np.exp(logits[index][seen] - logits[index][seen].max())
            weights[index][seen] = exponentials / exponentials.sum()
    return weights


def attention64(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False, query_seq_lengths=None,
                key_value_seq_lengths=None, local_window_size=None, query_segments=None, key_segments=None,
                distance_bias=None, query_offset=0, soft_cap=None, sink=None):  # fmt: skip
    """(context [B T N Hv], weights [B N T S]) by Vaswani et al. 2017, equation 1, in float64 with Python loops."""
    logits, visible = logits64(query, key, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths,
                               local_window_size, query_segments, key_segments, distance_bias, query_offset,
                               soft_cap)  # fmt: skip
    value = np.asarray(value, np.float64)
    (B, T, N, _), (K, Hv) = query.shape, value.shape[2:]
    if sink is not None:
        column = np.broadcast_to(np.asarray(sink, np.float64)[None, :, None, None], (B, N, T, 1))
        logits, visible = np.concatenate([logits, column], -1), np.concatenate([visible, np.isfinite(column)], -1)
    weights = softmax64(logits, visible & (logits > -np.inf))[..., : value.shape[1]]
    context = np.zeros((B, T, N, Hv))
    for b, i, n in np.ndindex(B, T, N):
        context[b, i, n] = weights[b, n, i] @ value[b, :, n // (N // K)]
    return context, weights


def logits64(query, key, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
             query_segments, key_segments, distance_bias, query_offset, soft_cap):  # fmt: skip
    """(logits, visible), both [B N T S]."""
    query, key = (np.asarray(x, np.float64) for x in (query, key))
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    # Reading one entry of a JAX array compiles a program, so the arrays are converted first.
    query_seq_lengths, key_value_seq_lengths, query_segments, key_segments = (
        None if x is None else np.asarray(x)
        for x in (query_seq_lengths, key_value_seq_lengths, query_segments, key_segments)
    )
    by_distance = None if distance_bias is None else np.asarray(distance_bias, np.float64)
    offsets = np.broadcast_to(np.asarray(query_offset), (B,))
    left, right = (
        (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size or (T + S, T + S)
    )
    logits, visible = np.zeros((B, N, T, S)), np.ones((B, N, T, S), bool)
    for b, n, i, j in np.ndindex(B, N, T, S):
        logits[b, n, i, j] = query[b, i, n] @ key[b, j, n // (N // K)] * (H**-0.5 if scale is None else scale)
        if soft_cap is not None:
            logits[b, n, i, j] = soft_cap * np.tanh(logits[b, n, i, j] / soft_cap)
        at = i + offsets[b]
        visible[b, n, i, j] = (
            (local_window_size is None or at - left <= j <= at + right)
            and not (is_causal and j > at)
            and (query_seq_lengths is None or i < query_seq_lengths[b])
            and (key_value_seq_lengths is None or j < key_value_seq_lengths[b])
            and (query_segments is None or query_segments[b, i] == key_segments[b, j] != 0)
        )
        if by_distance is not None:
            logits[b, n, i, j] += by_distance[n % len(by_distance), j - i + T - 1]
    if bias is not None:
        logits = logits + np.asarray(bias, np.float64)
    if mask is not None:
        visible = visible & np.asarray(mask)
    return logits, visible

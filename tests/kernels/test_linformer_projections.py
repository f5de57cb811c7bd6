"""Linformer's other projections, pooling and convolution, against loops and PyTorch's convolution in float64."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import linformer_attention
from attention_research.kernels.efficient import convolved_linformer_attention, pooled_linformer_attention
from tests.kernels.conftest import attention64

B, T, S, N, K, H, HV, R, W = 2, 5, 17, 6, 3, 5, 7, 6, 3
MASK = jnp.asarray(np.random.default_rng(1).random((B, S)) < 0.6).at[1, 3:6].set(False).at[0, 15:].set(False)
WHOLE = jnp.ones((B, S), bool)


def arrays(normal, length=S):
    return normal(B, T, N, H), normal(B, length, K, H), normal(B, length, K, HV)


def pooled64(x, mask, stride, pooling):
    """(pooled [B R K H], whether a cell has a real position [B R]), cell by cell."""
    x = np.asarray(x, np.float64)
    cells = range(0, x.shape[1], stride)
    pooled, real = np.zeros((B, len(cells), *x.shape[2:])), np.zeros((B, len(cells)), bool)
    for b in range(B):
        for r, start in enumerate(cells):
            inside = [x[b, s] for s in range(start, min(start + stride, x.shape[1])) if mask[b, s]]
            if inside:
                pooled[b, r], real[b, r] = getattr(np, pooling)(inside, axis=0), True
    return pooled, real


@pytest.mark.parametrize(
    "rank, stride, pooling, mask",
    [(R, 3, "mean", MASK), (R, 3, "mean", WHOLE), (R, 3, "max", MASK), (1, 17, "mean", MASK), (12, 2, "max", WHOLE),
     (99, 1, "mean", MASK)],
    ids=["mean", "whole", "max", "one_cell", "whole_max", "each_alone"],
)  # fmt: skip
def test_pooled_is_attention_over_the_cells(rank, stride, pooling, mask, normal):
    query, key, value = arrays(normal)
    (keys, real), (values, _) = (pooled64(x, np.asarray(mask), stride, pooling) for x in (key, value))
    mask = None if mask is WHOLE else mask
    got = jax.jit(partial(pooled_linformer_attention, rank=rank, pooling=pooling, mask=mask))(query, key, value)
    expected = attention64(query, keys, values, mask=real[:, None, None, :])[0]
    np.testing.assert_allclose(got, expected, atol=5e-6, rtol=5e-5)


def test_pooling_and_convolving_are_linear_projections_where_nothing_is_ragged_or_padded(normal):
    length = R * W
    query, key, value = arrays(normal, length)
    kernel = np.asarray(normal(W))
    mean, convolution = np.zeros((2, R, length), np.float32)
    for r in range(R):
        mean[r, r * W : r * W + W] = 1 / W
        convolution[r, r * W : r * W + W] = kernel
    project = jax.jit(linformer_attention)
    mean, convolution, kernel = jnp.asarray(mean), jnp.asarray(convolution), jnp.asarray(kernel)
    np.testing.assert_allclose(
        jax.jit(partial(pooled_linformer_attention, rank=R))(query, key, value),
        project(query, key, value, mean, mean),
        atol=2e-6,
    )
    np.testing.assert_allclose(
        jax.jit(convolved_linformer_attention)(query, key, value, kernel, kernel),
        project(query, key, value, convolution, convolution),
        atol=5e-6,
    )


@pytest.mark.parametrize("mask", [WHOLE, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("kernel", ["W", "W H", "W K H"])
def test_convolved_is_attention_over_pytorchs_depthwise_convolution(mask, kernel, normal, torch):
    query, key, value = arrays(normal)
    axes = kernel.split()
    kernels = [normal(*({"W": W, "K": K, "H": width}[axis] for axis in axes)) for width in (H, HV)]
    convolved = []
    for x, weight in zip((key, value), kernels, strict=True):
        x = np.where(np.asarray(mask)[:, :, None, None], np.asarray(x, np.float64), 0)
        x = np.concatenate([x, np.zeros((B, -S % W, *x.shape[2:]))], axis=1)
        weight = np.asarray(weight, np.float64).reshape(W, *(1 for _ in range(3 - len(axes))), *weight.shape[1:])
        weight = np.broadcast_to(weight, (W, *x.shape[2:])).reshape(W, 1, -1)
        flat = torch.tensor(x.reshape(B, x.shape[1], -1).swapaxes(1, 2))
        channels = flat.shape[1]
        out = torch.nn.functional.conv1d(flat, torch.tensor(weight.T.copy()), stride=W, groups=channels)
        convolved.append(out.numpy().swapaxes(1, 2).reshape(B, -1, *x.shape[2:]))
    real = np.array([[np.asarray(mask)[b, start : start + W].any() for start in range(0, S, W)] for b in range(B)])
    mask = None if mask is WHOLE else mask
    got = jax.jit(partial(convolved_linformer_attention, mask=mask))(query, key, value, *kernels)
    expected = attention64(query, *convolved, mask=real[:, None, None, :])[0]
    np.testing.assert_allclose(got, expected, atol=1e-5, rtol=5e-5)


def test_more_padding_changes_nothing_for_the_convolution(normal):
    query, key, value = arrays(normal)
    kernels = normal(W, H), normal(W, HV)
    longer = [jnp.pad(x, ((0, 0), (0, 2 * W), (0, 0), (0, 0)), constant_values=7) for x in (key, value)]
    mask = jnp.pad(MASK, ((0, 0), (0, 2 * W)))
    attend = jax.jit(convolved_linformer_attention)
    got = attend(query, *longer, *kernels, mask=mask)
    np.testing.assert_allclose(got, attend(query, key, value, *kernels, mask=MASK), atol=1e-6)


def test_errors_name_the_argument(normal, unchecked):
    query, key, value = arrays(normal)
    with pytest.raises(ValueError, match="pooling: expected one of mean, max, got 'sum'"):
        pooled_linformer_attention(query, key, value, rank=R, pooling="sum")
    with pytest.raises(ValueError, match="rank: expected at least 1, got 0"):
        pooled_linformer_attention(query, key, value, rank=0)
    with pytest.raises(ValueError, match=r"value_kernel: axis W: expected key_kernel's 3, got 4"):
        convolved_linformer_attention(query, key, value, normal(W), normal(4))
    with pytest.raises(
        ValueError, match=r"key_kernel: expected axes \[W\], \[W H\] .* features \[3, 5\], got \[3, 7\]"
    ):
        convolved_linformer_attention(query, key, value, normal(W, HV), normal(W))

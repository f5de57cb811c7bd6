"""Convolutions along a sequence, dense and depthwise, with masked windows: against PyTorch and float64 loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import sequence_convolution
from attention_research.kernels.no_dot_product.lightweight_convolution import convolve

B, T, D, O = 2, 11, 6, 5
REAL = jnp.arange(T) < jnp.asarray([[8], [11]])
#: taps -> positions to the left
WINDOWS = {"centred": (3, 1), "even": (4, 2), "causal": (5, 4), "longer": (13, 12)}


def seen_of(W, seed=0):
    """[B T W]: a random mask of the taps that each position sees."""
    return jnp.asarray(np.random.default_rng(seed).random((B, T, W)) < 0.6)


def dense64(x, kernel, left, seen):
    """y_i = sum_w x_(i+w-left) K_w, tap by tap. Taps outside the sequence or masked contribute 0."""
    x, kernel, seen = np.asarray(x, np.float64), np.asarray(kernel, np.float64), np.asarray(seen)
    y = np.zeros((B, T, kernel.shape[2]))
    for b, i, w in np.ndindex(B, T, len(kernel)):
        if 0 <= (j := i + w - left) < T and seen[b, i, w]:
            y[b, i] += x[b, j] @ kernel[w]
    return y


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("W, left", WINDOWS.values(), ids=WINDOWS)
def test_it_and_its_gradients_are_pytorchs(W, left, masked, normal, torch):
    x, kernel, direction = normal(B, T, D), normal(W, D, O), normal(B, T, O)
    mask = REAL if masked else None
    wide = lambda a: torch.tensor(np.asarray(a, np.float64), requires_grad=True)
    tx, tkernel = wide(x), wide(kernel)
    zeroed = tx * torch.tensor(np.asarray(REAL))[..., None] if masked else tx
    padded = torch.nn.functional.pad(zeroed.mT, (left, W - 1 - left))
    theirs = torch.nn.functional.conv1d(padded, tkernel.permute(2, 1, 0)).mT
    (theirs * wide(direction).detach()).sum().backward()

    def value(x, kernel):
        y = sequence_convolution(x, kernel, left=left, mask=mask)
        return jnp.sum(y * direction), y

    gradients, ours = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(x, kernel)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-4)
    for got, want in zip(gradients, (tx.grad, tkernel.grad), strict=True):
        np.testing.assert_allclose(got, want.numpy(), atol=1e-4)


@pytest.mark.parametrize("masked", ["whole", "padded", "taps"])
@pytest.mark.parametrize("W, left, dilation", [(3, 2, 4), (4, 1, 3)], ids=["causal", "even"])
def test_taps_may_be_some_positions_apart(W, left, dilation, masked, normal, torch):
    """With a dilation it is PyTorch's dilated convolution, with gradients; a mask of taps hides each tap by itself."""
    x, kernel, direction = normal(B, T, D), normal(W, D, O), normal(B, T, O)
    mask = {"whole": None, "padded": REAL, "taps": seen_of(W)}[masked]
    wide = lambda a: torch.tensor(np.asarray(a, np.float64), requires_grad=True)
    tx, tkernel = wide(x), wide(kernel)
    zeroed = tx * torch.tensor(np.asarray(REAL))[..., None] if masked == "padded" else tx
    padded = torch.nn.functional.pad(zeroed.mT, (dilation * left, dilation * (W - 1 - left)))
    if masked == "taps":  # tap by tap: what a tap reads is zeroed where the mask hides it
        taps = [padded.mT[:, w * dilation : w * dilation + T] @ tkernel[w] for w in range(W)]
        theirs = sum(torch.tensor(np.asarray(mask[..., w, None])) * tap for w, tap in enumerate(taps))
    else:
        theirs = torch.nn.functional.conv1d(padded, tkernel.permute(2, 1, 0), dilation=dilation).mT
    (theirs * wide(direction).detach()).sum().backward()

    def value(x, kernel):
        y = sequence_convolution(x, kernel, left=left, dilation=dilation, mask=mask)
        return jnp.sum(y * direction), y

    gradients, ours = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(x, kernel)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-4)
    for got, want in zip(gradients, (tx.grad, tkernel.grad), strict=True):
        np.testing.assert_allclose(got, want.numpy(), atol=1e-4)


@pytest.mark.parametrize("W, left", WINDOWS.values(), ids=WINDOWS)
def test_a_mask_of_taps_cuts_each_window_by_itself(W, left, normal):
    """Dense convolution, and depthwise, which equals a dense one with a diagonal matrix for each tap."""
    x, kernel, filters, seen = normal(B, T, D), normal(W, D, O), normal(D, W), seen_of(W)
    got = sequence_convolution(x, kernel, left=left, mask=seen)
    np.testing.assert_allclose(got, dense64(x, kernel, left, seen), atol=1e-4)
    diagonals = np.stack([np.diag(tap) for tap in np.asarray(filters).T])
    depthwise = convolve(x, filters[None, None], left, seen)
    np.testing.assert_allclose(depthwise, dense64(x, diagonals, left, seen), atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "depthwise"])
def test_what_a_tap_does_not_see_has_no_gradient(kind, normal):
    """The gradient of y_i with respect to x_j is 0 where the mask of taps hides j from i, else not (in the window)."""
    W, left, seen = 5, 4, seen_of(5)
    x, kernel, filters = normal(B, T, D), normal(W, D, O), normal(D, W)
    run = {
        "dense": lambda x: sequence_convolution(x, kernel, left=left, mask=seen),
        "depthwise": lambda x: convolve(x, filters[None, None], left, seen),
    }[kind]
    moved = np.abs(jax.jit(jax.jacobian(lambda x: run(x).sum((0, 2))))(x)).max(-1)  # [T B T]
    seen = np.asarray(seen)
    for b, i, j in np.ndindex(B, T, T):
        inside = 0 <= (w := j - i + left) < W and bool(seen[b, i, w])
        assert (moved[i, b, j] > 0) == inside, (b, i, j)


def test_products_and_sums_are_in_the_inputs_dtype(normal):
    x, kernel = jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16), jax.ShapeDtypeStruct((3, D, O), jnp.float32)
    for mask in (None, REAL, seen_of(3)):
        run = lambda x, kernel, mask=mask: sequence_convolution(x, kernel, left=1, mask=mask)
        assert jax.eval_shape(run, x, kernel).dtype == jnp.bfloat16
    x, kernel = normal(B, T, D), normal(3, D, O)
    low = sequence_convolution(x.astype(jnp.bfloat16), kernel, left=1).astype(jnp.float32)
    assert 0 < float(jnp.abs(low - sequence_convolution(x, kernel, left=1)).max()) < 0.1


def test_errors_name_the_axis(normal, unchecked):
    with pytest.raises(ValueError, match="kernel: axis D of .*: expected 6 as in x, got 5"):
        sequence_convolution(normal(B, T, D), normal(3, 5, O), left=1)
    with pytest.raises(ValueError, match="mask: axis W of .*: expected 3 as in kernel, got 4"):
        sequence_convolution(normal(B, T, D), normal(3, D, O), left=1, mask=seen_of(4))
    with pytest.raises(ValueError, match="left: expected 0 to 2, got 3"):
        sequence_convolution(normal(B, T, D), normal(3, D, O), left=3)

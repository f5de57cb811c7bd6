"""Long convolutions against loops in float64: packed rows, blocks, steps, and the product of spectra."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.no_dot_product import long_convolution, long_convolution_step

B, T, D = 3, 21, 5
#: The second row has examples that begin inside blocks of 4, the third has one that fills several blocks, with padding.
REAL, RESET = np.ones((B, T), bool), np.zeros((B, T), bool)
REAL[2, [0, 1, 7, 20]] = False
RESET[1, [0, 3, 8, 13, 14]] = True
RESET[2, [5, 18]] = True


def convolution(x, kernel, skip, real=None, reset=None):
    """y_t = sum_s h_(t-s) x_s + d x_t over the positions s of the same example, of one row."""
    x = x if real is None else np.where(real[:, None], x, 0)
    y, first = np.zeros_like(x), 0
    for t in range(len(x)):
        first = t if reset is not None and reset[t] else first
        y[t] = skip * x[t] + sum(kernel[t - s] * x[s] for s in range(first, t + 1))
    return y


def arrays():
    random = np.random.default_rng(0)
    return random.standard_normal((B, T, D)), random.standard_normal((T, D)), random.standard_normal(D)


def test_printed_numbers():
    """The operator of order 2, by an independent program in float64."""
    x1, x2, v, h = np.random.default_rng(7).standard_normal((4, 4, 1))
    y = x2 * convolution(x1 * v, h, 0.5)
    np.testing.assert_allclose(y[:, 0], [0.000167, 0.110726, 0.005485, -0.083732], atol=6e-7)


def test_blocks_and_steps_are_the_equation():
    x, kernel, skip = arrays()
    with jax.enable_x64(True):

        @jax.jit
        def found(x, kernel, skip):
            packed = long_convolution(x, kernel, skip, mask=jnp.asarray(REAL), reset=jnp.asarray(RESET), block_size=4)

            def step(carry, x):
                (inputs, index), rest = carry, (kernel, skip)
                inputs, y = long_convolution_step(inputs, x, rest[0], index, rest[1])
                return (inputs, index + 1), y

            start = jnp.zeros_like(x), jnp.int32(0)
            return packed, long_convolution(x, kernel, block_size=4), jax.lax.scan(step, start, x.swapaxes(0, 1))[1]

        packed, plain, stepped = map(np.asarray, found(x, kernel, skip))
    for b in range(B):
        np.testing.assert_allclose(packed[b], convolution(x[b], kernel, skip, REAL[b], RESET[b]), atol=1e-13)
        np.testing.assert_allclose(plain[b], convolution(x[b], kernel, 0.0), atol=1e-13)
        np.testing.assert_allclose(stepped[:, b], convolution(x[b], kernel, skip), atol=1e-13)


@pytest.mark.slow
def test_blocks_of_any_size_are_the_product_of_spectra():
    x, kernel, _ = arrays()
    spectra = np.fft.rfft(x, 2 * T, axis=1) * np.fft.rfft(kernel, 2 * T, axis=0)
    want = np.fft.irfft(spectra, 2 * T, axis=1)[:, :T]
    with jax.enable_x64(True):
        sizes = (1, 3, 7, T, 64)
        got = jax.jit(lambda x, h: [long_convolution(x, h, block_size=size) for size in sizes])(x, kernel)
        for one in got:
            np.testing.assert_allclose(one, want, atol=1e-13)

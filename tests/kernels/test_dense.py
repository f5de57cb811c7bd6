"""Sinusoids, layer normalisation, projection and the chunked cross-entropy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import chunked_log_likelihood, layer_norm, project, sinusoidal_positions
from tests.tiers import fast_are


@pytest.mark.parametrize("length, width", [(11, 6), (7, 5), (1, 1)])
def test_sinusoids_interleave_as_the_paper_prints(length, width):
    table = sinusoidal_positions(length, width)
    assert table.shape == (length, width) and table.dtype == jnp.float32
    for position, column in np.ndindex(length, width):
        angle = position / 10000 ** (2 * (column // 2) / width)
        expected = np.cos(angle) if column % 2 else np.sin(angle)
        np.testing.assert_allclose(table[position, column], expected, atol=1e-7)


def test_sinusoids_at_large_positions_are_exact():
    expected = [np.sin(20010), np.cos(20010), np.sin(200.1), np.cos(200.1)]
    np.testing.assert_allclose(sinusoidal_positions(20011, 4)[20010], expected, atol=1e-7)


def norm64(x, scale, bias, epsilon=1e-6):
    x = np.asarray(x, np.float64)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * np.asarray(scale) + np.asarray(bias)


def test_layer_norm_is_the_equation_far_from_zero_too(normal):
    scale, bias = normal(11), normal(11)
    for x in (normal(2, 3, 11), 1000 + normal(5, 11)):
        np.testing.assert_allclose(jax.jit(layer_norm)(x, scale, bias), norm64(x, scale, bias), atol=2e-4)
    np.testing.assert_allclose(layer_norm(x, scale, bias, epsilon=0.5), norm64(x, scale, bias, 0.5), atol=2e-4)


@pytest.mark.slow
def test_layer_norm_gradients_are_pytorchs_and_finite_differences(normal, torch):
    x, scale, bias, weight = normal(3, 7, 11), normal(11), normal(11), normal(3, 7, 11)
    leaves = [torch.tensor(np.asarray(array)).requires_grad_() for array in (x, scale, bias)]
    output = torch.nn.functional.layer_norm(leaves[0], (11,), *leaves[1:], eps=1e-6)
    (output * torch.tensor(np.asarray(weight))).sum().backward()
    for got, leaf in zip(
        jax.jit(jax.grad(lambda *a: jnp.vdot(layer_norm(*a), weight), (0, 1, 2)))(x, scale, bias), leaves, strict=True
    ):
        np.testing.assert_allclose(got, leaf.grad.numpy(), atol=1e-5, rtol=1e-4)
    with jax.enable_x64(True):
        inputs = tuple(array.astype(jnp.float64) for array in (x, scale, bias))
        check_grads(jax.jit(layer_norm), inputs, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.slow
def test_layer_norm_has_a_second_derivative(normal):
    """Loss landscapes need Hessian-vector products (forward over reverse)."""
    x, scale, bias, direction = normal(3, 11), normal(11), normal(11), normal(3, 11)
    gradient = jax.grad(lambda x: jnp.sum(layer_norm(x, scale, bias) ** 3))
    _, along = jax.jvp(gradient, (x,), (direction,))
    plain = lambda x: jnp.sum((jax.nn.standardize(x, epsilon=1e-6) * scale + bias) ** 3)
    _, expected = jax.jvp(jax.grad(plain), (x,), (direction,))
    np.testing.assert_allclose(along, expected, atol=1e-3, rtol=1e-3)


def test_layer_norm_in_bfloat16_keeps_float32_statistics(normal):
    x, scale, bias = normal(5, 1031), normal(1031), normal(1031)
    low = layer_norm(x.astype(jnp.bfloat16), scale, bias)
    assert low.dtype == jnp.bfloat16
    rounded = norm64(x.astype(jnp.bfloat16).astype(jnp.float32), scale, bias)
    np.testing.assert_allclose(low.astype(jnp.float32), rounded, rtol=2**-8, atol=1e-5)
    total = jax.jit(jax.grad(lambda x: layer_norm(x, scale, bias).astype(jnp.float32).sum()))
    gradient = total(x.astype(jnp.bfloat16))
    assert gradient.dtype == jnp.bfloat16


PRODUCTS = {
    "leading0-5-11": ((), 5, 11), "leading1-11-5": ((3,), 11, 5), "leading2-5-11": ((2, 3, 7), 5, 11),
    "leading3-11-5": ((2, 3, 7), 11, 5),
}  # fmt: skip


@pytest.mark.parametrize(("leading", "D", "F"), fast_are(["leading2-5-11"], PRODUCTS, several=True))
def test_projection_is_a_product_over_the_last_axis(leading, D, F, normal):
    x, kernel, bias = normal(*leading, D), normal(D, F), normal(F)
    expected = np.asarray(x, np.float64) @ np.asarray(kernel, np.float64)
    np.testing.assert_allclose(project(x, kernel), expected, atol=1e-5)
    np.testing.assert_allclose(project(x, kernel, bias), expected + np.asarray(bias), atol=1e-5)
    with jax.enable_x64(True):
        inputs = tuple(array.astype(jnp.float64) for array in (x, kernel, bias))
        check_grads(jax.jit(project), inputs, order=2, modes=["rev", "fwd"], atol=1e-6, rtol=1e-6)


def test_projection_in_bfloat16_sums_in_float32(normal):
    """A bfloat16 sum of 4099 ones would stop at 256."""
    x, kernel = jnp.ones((3, 4099), jnp.bfloat16), jnp.ones((4099, 2))
    result = project(x, kernel)
    assert result.dtype == jnp.bfloat16
    np.testing.assert_array_equal(result.astype(jnp.float32), 4096.0)
    gradient = jax.grad(lambda kernel: project(x, kernel).astype(jnp.float32).sum())(kernel)
    assert gradient.dtype == jnp.float32


M, D, V = 23, 5, 31


def likelihood64(hidden, kernel, targets, bias=None):
    logits = np.asarray(hidden, np.float64) @ np.asarray(kernel, np.float64)
    logits = logits if bias is None else logits + np.asarray(bias, np.float64)
    log_z = np.log(np.exp(logits).sum(-1))
    log_p = logits - log_z[:, None]
    return log_p[np.arange(len(targets)), np.asarray(targets)], log_p.mean(-1), log_z


@pytest.mark.parametrize("chunk_size", fast_are(["7"], [None, 1, 7, 1024]))
@pytest.mark.parametrize("with_bias", [False, True], ids=["no_bias", "bias"])
def test_chunks_give_the_log_likelihood_and_its_gradient(chunk_size, with_bias, normal):
    hidden, kernel, bias = normal(M, D), normal(D, V), normal(V) if with_bias else None
    targets = jnp.asarray(np.random.default_rng(0).integers(0, V, M), jnp.int32)
    weight, smooth, z_weight = normal(M), normal(M), normal(M)
    got = chunked_log_likelihood(hidden, kernel, targets, bias=bias, chunk_size=chunk_size)
    for mine, expected in zip(got, likelihood64(hidden, kernel, targets, bias), strict=True):
        assert mine.dtype == jnp.float32 and mine.shape == (M,)
        np.testing.assert_allclose(mine, expected, atol=1e-5)

    def chunked(hidden, kernel, bias):
        of_target, mean, log_z = chunked_log_likelihood(hidden, kernel, targets, bias=bias, chunk_size=chunk_size)
        return jnp.vdot(of_target, weight) + jnp.vdot(mean, smooth) + jnp.vdot(log_z**2, z_weight)

    def dense(hidden, kernel, bias):
        logits = hidden @ kernel + (0.0 if bias is None else bias)
        log_p, log_z = jax.nn.log_softmax(logits), jnp.log(jnp.exp(logits).sum(-1))
        of_target = jnp.take_along_axis(log_p, targets[:, None], 1)[:, 0]
        return jnp.vdot(of_target, weight) + jnp.vdot(log_p.mean(-1), smooth) + jnp.vdot(log_z**2, z_weight)

    numbers = (0, 1, 2) if with_bias else (0, 1)
    got, expected = (jax.jit(jax.grad(f, numbers))(hidden, kernel, bias) for f in (chunked, dense))
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
def test_likelihood_gradients_are_finite_differences_in_float64(normal):
    with jax.enable_x64(True):
        hidden, kernel, bias = (x.astype(jnp.float64) for x in (normal(M, D), normal(D, V), normal(V)))
        targets = jnp.arange(M)
        f = lambda hidden, kernel, bias: chunked_log_likelihood(hidden, kernel, targets, bias=bias, chunk_size=7)
        check_grads(jax.jit(f), (hidden, kernel, bias), order=2, modes=["rev", "fwd"], atol=1e-6, rtol=1e-6)


def test_the_full_logits_are_never_created(normal):
    hidden, kernel, targets = normal(1009, D), normal(D, V), jnp.zeros((1009,), jnp.int32)

    def loss(hidden, kernel):
        of_target, _, log_z = chunked_log_likelihood(hidden, kernel, targets, chunk_size=64)
        return jnp.sum(log_z**2) - of_target.sum()

    text = str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(hidden, kernel))
    assert f"[64,{V}]" in text and f"[1009,{V}]" not in text and f"[16,64,{V}]" not in text


def test_few_logits_are_kept_and_not_computed_again(normal):
    hidden, kernel, targets = normal(M, D), normal(D, V), jnp.zeros((M,), jnp.int32)

    def products(rows):
        loss = lambda hidden, kernel: chunked_log_likelihood(hidden, kernel, targets, chunk_size=rows)[0].sum()
        return str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(hidden, kernel)).count("dot_general")

    assert products(None) == products(M) - 1


def test_the_gradient_of_a_narrowing_kernel_is_computed_transposed_on_a_cpu_alone(normal):
    """It is the faster of two equal products on a CPU. The test of products checks the values."""

    def barriers(inputs, outputs, platform):
        gradient = jax.jit(jax.grad(lambda kernel, x: project(x, kernel).sum()))
        traced = gradient.trace(normal(inputs, outputs), normal(3, inputs))
        return traced.lower(lowering_platforms=(platform,)).as_text().count("optimization_barrier")

    assert barriers(7, 5, "cpu") == 1 and barriers(5, 7, "cpu") == 0 and barriers(7, 5, "cuda") == 0


@pytest.mark.slow
def test_likelihood_in_bfloat16_is_float32_and_within_twice_the_dense_error(normal):
    hidden, kernel, targets = normal(M, 509), normal(509, V) * 0.1, jnp.zeros((M,), jnp.int32)
    exact, *_ = likelihood64(hidden, kernel, targets)
    low = hidden.astype(jnp.bfloat16)
    mine, *_ = chunked_log_likelihood(low, kernel, targets)
    assert mine.dtype == jnp.float32
    dense = jax.nn.log_softmax(low @ kernel.astype(jnp.bfloat16))[:, 0]
    assert np.abs(mine - exact).max() <= 2 * np.abs(dense.astype(jnp.float32) - exact).max()


def test_errors_name_the_axis(normal, unchecked):
    with pytest.raises(ValueError, match=r"scale: axis D: expected \[5\], got shape \[7\]"):
        layer_norm(normal(3, 5), normal(7), normal(5))
    with pytest.raises(ValueError, match=r"kernel: axis D of \[D F\]: expected 5, got shape \[7, 11\]"):
        project(normal(3, 5), normal(7, 11))
    with pytest.raises(ValueError, match=r"bias: axis F: expected \[11\], got shape \[5\]"):
        project(normal(3, 5), normal(5, 11), normal(5))
    with pytest.raises(ValueError, match=r"kernel: axis D of \[D V\]: expected 5, got shape \[31, 5\]"):
        chunked_log_likelihood(normal(M, D), normal(V, D), jnp.zeros((M,), jnp.int32))
    with pytest.raises(ValueError, match=r"targets: axis M: expected \[23\], got shape \[7\]"):
        chunked_log_likelihood(normal(M, D), normal(D, V), jnp.zeros((7,), jnp.int32))
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        chunked_log_likelihood(normal(M, D), normal(D, V), jnp.zeros((M,), jnp.int32), chunk_size=0)

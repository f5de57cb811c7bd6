"""FLOPs of a jaxpr against closed forms, equivalent formulations, and XLA's count where it is correct."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec

from attention_research.accounting import Flops, count_flops

B, T, S, D, F, L = 3, 5, 7, 11, 13, 17


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def matmul(function, *arguments, **settings):
    return count_flops(function, *arguments, **settings).matmul


@pytest.mark.parametrize(
    ("equation", "left", "right", "expected"),
    [
        ("TD,DF->TF", (T, D), (D, F), 2 * T * D * F),
        ("BTD,DF->BTF", (B, T, D), (D, F), 2 * B * T * D * F),
        ("BTNH,BSNH->BNTS", (B, T, 2, D), (B, S, 2, D), 2 * B * 2 * T * S * D),
        ("BTD,BTF->DF", (B, T, D), (B, T, F), 2 * B * T * D * F),
        ("D,D->", (D,), (D,), 2 * D),
        ("T,S->TS", (T,), (S,), 2 * T * S),
    ],
)
def test_contractions(equation, left, right, expected):
    assert count_flops(functools.partial(jnp.einsum, equation), array(*left), array(*right)).matmul == expected


def test_a_triangular_system_is_solved_by_substitution():
    """Unknown i takes i multiply-adds and a division: n^2 for one right-hand side."""
    solve = jax.scipy.linalg.solve_triangular
    assert matmul(solve, array(B, D, D), array(B, D, F)) == B * sum(2 * i + 1 for i in range(D)) * F
    right = lambda a, b: lax.linalg.triangular_solve(a, b)  # x a = b
    assert matmul(right, array(D, D), array(F, D)) == D * D * F


def test_loops_are_multiplied_by_their_length():
    layer = lambda x, w: (jnp.tanh(x @ w), None)
    x, weights, one = array(T, D), array(L, D, D), 2 * T * D * D

    def unrolled(x, weights):
        for n in range(L):
            x, _ = layer(x, weights[n])
        return x

    scanned = lambda x, weights: lax.scan(layer, x, weights)[0]
    assert count_flops(scanned, x, weights) == count_flops(unrolled, x, weights) == Flops(L * one, L * T * D)
    assert matmul(lambda x, w: lax.map(lambda y: y @ w, x), array(L, T, D), array(D, D)) == L * one
    assert matmul(lambda x, w: lax.map(lambda y: y @ w, x, batch_size=4), array(L, T, D), array(D, D)) == L * one
    assert matmul(lambda x, w: lax.fori_loop(2, 9, lambda _, y: y @ w, x), x, array(D, D)) == 7 * one
    nested = lambda x, w: lax.scan(lambda y, _: (scanned(y, w), None), x, length=3)[0]
    assert matmul(nested, x, weights) == 3 * L * one


def test_gradients_cost_twice_the_forward_pass_and_remat_adds_one():
    x, weights, one = array(T, D), array(L, D, D), 2 * T * D * D

    def loss(x, weights, wrap):
        layer = wrap(lambda y, w: (jnp.tanh(jnp.tanh(y @ w) @ w), None))
        return lax.scan(layer, x, weights)[0].sum()

    step = lambda wrap: jax.value_and_grad(functools.partial(loss, wrap=wrap), (0, 1))
    assert matmul(functools.partial(loss, wrap=lambda f: f), x, weights) == 2 * L * one
    assert matmul(step(lambda f: f), x, weights) == 6 * L * one
    # The backward pass recomputes the first product of each layer, and the second, whose tanh it differentiates.
    assert matmul(step(jax.checkpoint), x, weights) == 8 * L * one
    # Without the gradient with respect to x, the scan's backward pass still carries it from layer to layer.
    assert matmul(jax.grad(functools.partial(loss, wrap=lambda f: f), 1), x, weights) == 6 * L * one
    assert matmul(jax.grad(lambda w, x: (x @ w).sum()), array(D, F), x) == 2 * T * D * F


def test_custom_gradients_cost_what_their_rules_cost():
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    def backward(residuals, g):
        x, w = residuals
        return (g @ w.T, x.T @ g + x.T @ g * 2)

    product.defvjp(lambda x, w: (x @ w, (x, w)), backward)
    one = 2 * T * D * F
    assert matmul(product, array(T, D), array(D, F)) == one
    assert matmul(jax.grad(lambda x, w: product(x, w).sum(), (0, 1)), array(T, D), array(D, F)) == 3 * one
    assert matmul(jax.value_and_grad(lambda x, w: product(x, w).sum(), 0), array(T, D), array(D, F)) == 2 * one

    @jax.custom_jvp
    def square(x):
        return x @ x

    square.defjvp(lambda primals, tangents: (square(*primals), tangents[0] @ primals[0] + primals[0] @ tangents[0]))
    assert matmul(square, array(D, D)) == 2 * D**3
    assert matmul(lambda x: jax.jvp(square, (x,), (x,)), array(D, D)) == 6 * D**3


def test_unused_computations_cost_nothing():
    def attention(x):
        weights = jax.nn.softmax(jnp.einsum("TD,SD->TS", x, x) * 2.0)
        return x * 2.0, {"weights": weights}

    kept, dropped = count_flops(attention, array(T, D)), count_flops(lambda x: attention(x)[0], array(T, D))
    assert kept.matmul == 2 * T * T * D and dropped == Flops(0, T * D)
    assert matmul(lambda x: jax.jit(attention)(x)[0], array(T, D)) == 0
    assert matmul(lambda x: lax.scan(lambda c, _: attention(c), x, length=3)[0], array(T, D)) == 0
    body = lambda s: (s[0] + 1, attention(s[1])[0])
    assert matmul(lambda x: lax.while_loop(lambda s: s[0] < x.size, body, (0, x))[1], array(T, D)) == 0
    step = jax.checkpoint(lambda c, _: attention(c))
    assert matmul(jax.grad(lambda x: lax.scan(step, x, length=3)[0].sum()), array(T, D)) == 0


def test_while_loops():
    body = lambda s: (s[0] + 3, s[1] @ s[1])
    counted = lambda x: lax.while_loop(lambda s: s[0] < 20, body, (1, x))[1]
    assert matmul(counted, array(D, D)) == 7 * 2 * D**3  # 1, 4, 7, 10, 13, 16, 19
    assert matmul(counted, array(D, D), trips=1000) == 7 * 2 * D**3
    bounds = lambda x: lax.fori_loop(jnp.int32(2), jnp.int32(9), lambda _, y: y @ y, x)
    assert matmul(bounds, array(D, D)) == 7 * 2 * D**3
    never = lambda x: lax.while_loop(lambda s: s[0] < 1, body, (1, x))[1]
    assert matmul(never, array(D, D)) == 0

    until = lambda x: lax.while_loop(lambda y: y.sum() < 9.0, lambda y: y @ y, x)
    dynamic = lambda x, n: lax.fori_loop(0, n, lambda _, y: y @ y, x)
    for function, arguments in ((until, (array(D, D),)), (dynamic, (array(D, D), array(dtype=jnp.int32)))):
        with pytest.raises(ValueError, match="trips="):
            count_flops(function, *arguments)
        assert matmul(function, *arguments, trips=6) == 6 * 2 * D**3
    moved = lambda x: lax.while_loop(lambda s: s[0] < s[2], lambda s: (s[0] + 1, s[1] @ s[1], s[2] - 1), (0, x, 9))[1]
    with pytest.raises(ValueError, match="trips="):
        count_flops(moved, array(D, D))


def test_the_most_expensive_branch_counts():
    def function(x, n):
        return lax.switch(n, [lambda: x, lambda: x @ x, lambda: x @ x @ x, lambda: jnp.tanh(jnp.tanh(x))])

    counted = count_flops(function, array(D, D), array(dtype=jnp.int32))
    assert counted.matmul == 2 * 2 * D**3 and counted.other >= 2 * D * D


def test_a_mapped_body_counts_once_a_device():
    mesh = jax.sharding.AbstractMesh((4, 2), ("data", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    spec = PartitionSpec("data")
    both = jax.shard_map(
        lambda x, w: x @ w, mesh=mesh, in_specs=(spec, PartitionSpec()), out_specs=spec, check_vma=False
    )
    assert matmul(both, array(8, D), array(D, F)) == 2 * (2 * 8 * D * F)  # the tensor axis repeats the work
    one = jax.shard_map(
        lambda x, w: x @ w, mesh=mesh, axis_names={"data"}, in_specs=(spec, PartitionSpec()), out_specs=spec
    )
    assert matmul(jax.jit(one), array(8, D), array(D, F)) == 2 * 8 * D * F
    assert matmul(jax.pmap(lambda x: x @ x), array(1, D, D)) == 2 * D**3


CONVOLUTIONS = {
    "plain": dict(window_strides=(1, 1), padding="VALID"),
    "same": dict(window_strides=(1, 1), padding="SAME"),
    "strided": dict(window_strides=(2, 3), padding=((1, 2), (0, 1))),
    "dilated": dict(window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 1)),
    "transposed": dict(window_strides=(1, 1), padding=((2, 2), (1, 2)), lhs_dilation=(2, 3)),
    "grouped": dict(window_strides=(1, 2), padding="SAME", feature_group_count=2),
}


def convolve(x, kernel, settings):
    return lax.conv_general_dilated(x, kernel, dimension_numbers=("NHWC", "HWIO", "NHWC"), **settings)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_count_their_real_multiply_adds(name):
    settings = CONVOLUTIONS[name]
    groups = settings.get("feature_group_count", 1)
    x, kernel = np.ones((2, 7, 11, 6), np.float32), np.ones((3, 5, 6 // groups, 4), np.float32)
    forward = functools.partial(convolve, settings=settings)
    # A convolution of ones with ones sums the ones that it multiplies, which gives its multiply-adds.
    expected = 2 * int(np.asarray(jax.jit(forward)(x, kernel), np.float64).sum())
    assert matmul(forward, x, kernel) == expected
    for argument in (0, 1):
        assert matmul(jax.grad(lambda x, k: forward(x, k).sum(), argument), x, kernel) == expected


def test_a_plain_convolution_in_closed_form():
    settings = CONVOLUTIONS["plain"]
    counted = matmul(functools.partial(convolve, settings=settings), array(2, 7, 11, 6), array(3, 5, 6, 4))
    assert counted == 2 * 2 * (5 * 7) * 4 * (3 * 5 * 6)


def test_a_pallas_kernel_counts_its_grid():
    def kernel(x, w, out):
        out[...] = x[...] @ w[...]

    blocks = pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 16), lambda i: (i, 0)), pl.BlockSpec((16, 24), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, 24), lambda i: (i, 0)),
        out_shape=array(32, 24),
    )
    assert matmul(blocks, array(32, 16), array(16, 24)) == 2 * 32 * 16 * 24


def test_the_rest_counts_elements():
    assert count_flops(lambda x: jnp.exp(x) + x, array(T, D)) == Flops(0, 2 * T * D)
    assert count_flops(lambda x: x.sum(0), array(T, D)) == Flops(0, T * D)
    assert count_flops(lambda x: x.T.reshape(-1)[3:], array(T, D)) == Flops(0, 0)
    assert count_flops(lambda x: x.max(), array(T, D)).other == T * D
    assert Flops(3, 4).total == 7


def test_hidden_arithmetic_is_refused():
    with pytest.raises(NotImplementedError, match="qr"):
        count_flops(lambda x: jnp.linalg.qr(x)[0], array(D, D))


def test_equals_xlas_count_without_loops():
    def loss(parameters, x):
        hidden = jnp.maximum(jnp.einsum("BTD,DF->BTF", x, parameters["up"]), 0.0)
        scores = jnp.einsum("BTF,BSF->BTS", hidden, hidden)
        return (jnp.einsum("BTS,BSF->BTF", scores, hidden) ** 2).sum()

    parameters, x = {"up": array(D * 8, F * 8)}, array(B, T * 16, D * 8)
    counted = count_flops(jax.value_and_grad(loss), parameters, x)
    analysis = jax.jit(jax.value_and_grad(loss)).lower(parameters, x).cost_analysis()
    assert counted.matmul <= analysis["flops"]
    np.testing.assert_allclose(counted.total, analysis["flops"], rtol=0.005)

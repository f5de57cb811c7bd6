"""A hand-written gradient that supports forward mode: every mode and order equals that of the plain function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import layer_norm
from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.precision import einsum


def plain(x, count, factor):
    return {"y": jnp.sin(x["a"]) * factor, "count": count + 1}


def by_hand(calls):
    """`plain` with a hand-written gradient that records its use."""
    fast = jax.custom_vjp(plain)

    def backward(residuals, cotangent):
        calls.append("backward")
        a, factor = residuals
        return {"a": cotangent["y"] * jnp.cos(a) * factor}, None, jnp.sum(cotangent["y"] * jnp.sin(a))

    fast.defvjp(lambda x, count, factor: (plain(x, count, factor), (x["a"], factor)), backward)
    return both_modes(fast, plain)


X, FACTOR = {"a": np.arange(1.0, 4.0, dtype=np.float32)}, np.float32(2)
TRANSFORMS = {
    "jvp": lambda f: jax.jvp(f, (X, FACTOR), (X, FACTOR)),
    "linearize": lambda f: jax.linearize(f, X, FACTOR)[1](X, FACTOR),
    "gradient": lambda f: jax.grad(f, (0, 1))(X, FACTOR),
    "forward_over_reverse": lambda f: jax.jvp(jax.grad(f, (0, 1)), (X, FACTOR), (X, FACTOR)),
    "reverse_over_forward": lambda f: jax.grad(lambda x: jax.jvp(f, (x, FACTOR), (x, FACTOR))[1])(X),
    "reverse_over_reverse": lambda f: jax.grad(lambda x: jnp.vdot(jax.grad(f)(x, FACTOR)["a"], x["a"]))(X),
    "hessian_of_a_batch": lambda f: jax.vmap(jax.hessian(f), (0, None))({"a": jnp.stack([X["a"], X["a"] ** 2])}, 2.0),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(X, FACTOR),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_every_mode_and_order_is_that_of_the_plain_function(transform):
    calls: list[str] = []
    loss = lambda function: lambda x, factor: jnp.sum(function(x, jnp.int32(3), factor)["y"] ** 2)
    found, wanted = (jax.jit(lambda f=f: transform(loss(f)))() for f in (by_hand(calls), plain))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, wanted)
    assert calls or transform is not TRANSFORMS["gradient"]


def test_a_batch_axis_keeps_its_name():
    over_devices = lambda x: jax.lax.psum(jnp.sin(x), "devices")
    fast = jax.custom_vjp(over_devices)
    fast.defvjp(lambda x: (over_devices(x), x), lambda x, g: (jax.lax.psum(g, "devices") * jnp.cos(x),))
    x = jnp.arange(3.0)
    _, found = jax.vmap(lambda x: jax.jvp(both_modes(fast, over_devices), (x,), (x,)), axis_name="devices")(x)
    np.testing.assert_allclose(found, np.full(3, np.sum(np.cos(x) * x)), rtol=1e-5)


def test_a_bfloat16_product_has_forward_mode():
    a = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    result, tangent = jax.jvp(lambda a: einsum("ij,kj->ik", a, a), (a,), (a,))
    np.testing.assert_array_equal(tangent, 2 * result)
    loss = lambda a: jnp.sum(einsum("ij,kj->ik", a, a) ** 2)
    _, product = jax.jvp(jax.grad(loss), (a,), (a,))
    np.testing.assert_allclose(product, 3 * jax.grad(loss)(a), rtol=2**-6)  # the loss has degree 4


@pytest.mark.slow
def test_layer_norm_has_derivatives_of_every_mode():
    """Compared with the formula, differentiated by JAX."""
    with jax.enable_x64(True):
        random = np.random.default_rng(0)
        x, scale, bias, *moves = (random.standard_normal(shape) for shape in [(3, 5), (5,), (5,)] * 2)

        def formula(x, scale, bias):
            centred = x - x.mean(-1, keepdims=True)
            return centred / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-6) * scale + bias

        for transform in (
            lambda f: jax.jvp(f, (x, scale, bias), tuple(moves))[1],
            lambda f: jax.jvp(jax.grad(f, (0, 1, 2)), (x, scale, bias), tuple(moves))[1],
        ):
            loss = lambda function: lambda *arrays: jnp.sum(jnp.sin(function(*arrays)))
            found, wanted = jax.jit(lambda: transform(loss(layer_norm)))(), transform(loss(formula))  # noqa: B023
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), found, wanted)


@pytest.mark.parametrize("order", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_inside_a_loop_and_where_no_input_is_mapped(order):
    def run(function):
        step = lambda x, _: (function({"a": x}, jnp.int32(3), 0.7)["y"], jnp.sum(x))
        return lambda x: jnp.sum(jax.lax.scan(step, x, None, length=3)[0] ** 2)

    found, wanted = (jax.jit(order(jax.jacfwd(run(f))))(X["a"]) for f in (by_hand([]), plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_reverse_mode_never_traces_the_plain_form():
    def never(x):
        raise AssertionError("the plain form was traced")

    fast = jax.custom_vjp(jnp.sin)
    fast.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    np.testing.assert_allclose(jax.grad(both_modes(fast, never))(0.3), np.cos(0.3), rtol=1e-6)

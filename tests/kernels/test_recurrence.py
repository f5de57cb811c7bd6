"""`recurrence` equals `lax.scan` in values and gradients, up to the order of sums, with fewer products in its loops."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import AxisType, PartitionSpec

from attention_research.kernels import attend
from attention_research.kernels.recurrent import gru_cell, gru_reset_before_cell, lstm_cell, recurrence
from attention_research.kernels.scores import projected_additive_scores
from tests.tiers import fast_are

T, B, I, D, S, A = 7, 3, 5, 11, 4, 2


def gru(weights, carry, x):
    hidden = gru_cell(x["x"], carry["hidden"], *weights["gru"])
    return {"hidden": hidden}, hidden


def lstm(weights, carry, x):
    hidden, cell = lstm_cell(x["x"], carry["hidden"], carry["cell"], *weights["lstm"])
    return {"hidden": hidden, "cell": cell}, (hidden, cell[:, :3])


def decoder(weights, carry, x):
    """Bahdanau's decoder with all that a body may use: attention to closed-over arrays, random keys, a counter."""
    query = jnp.einsum("BTD,AD->BTA", carry["hidden"][:, None], weights["query"])
    scores = projected_additive_scores(query, weights["keys"], weights["v"])
    context, aligned = attend(scores, weights["values"])
    noise = jax.random.normal(jax.random.fold_in(x["key"], carry["step"]), (B, I), x["x"].dtype)
    given = jnp.concatenate([x["x"] + noise, context[:, 0]], axis=1)
    hidden = gru_reset_before_cell(given, carry["hidden"], *weights["bahdanau"])
    product = hidden @ weights["state"]  # used twice
    readout = product + x["x"] @ weights["embedded"] + weights["constant"] * weights["constant"]
    readout = readout + product * weights["gain"] + weights["gain"].sum()
    return {"hidden": hidden, "step": carry["step"] + 1}, {"readout": jnp.tanh(readout), "aligned": aligned[:, 0]}


def given(body, dtype=jnp.float32):
    """(weights, first carry, xs)."""
    random = np.random.default_rng(0)
    n = lambda *shape: jnp.asarray(random.standard_normal(shape), dtype)
    xs, carry = {"x": n(T, B, I)}, {"hidden": n(B, D)}
    if body is gru:
        return {"gru": (n(I, 3 * D), n(D, 3 * D), n(3 * D), n(D))}, carry, xs
    if body is lstm:
        return {"lstm": (n(I, 4 * D), n(D, 4 * D), n(4 * D))}, {**carry, "cell": n(B, D)}, xs
    weights = {
        "query": n(A, D), "keys": n(B, S, A), "v": n(A), "values": n(B, S, D), "embedded": n(I, D), "state": n(D, D),
        "bahdanau": (n(I + D, 3 * D), n(D, 3 * D), n(3 * D)), "constant": n(B, D), "gain": n(D),
    }  # fmt: skip
    return weights, {**carry, "step": jnp.zeros((), jnp.int32)}, {**xs, "key": jax.random.split(jax.random.key(0), T)}


def loss(scan, body, reverse):
    """A loss in which every output has a different weight. The floating-point leaves of carry and xs are arguments."""

    def of(weights, hidden, x, carry, xs):
        last, ys = scan(
            lambda carry, x: body(weights, carry, x), {**carry, "hidden": hidden}, {**xs, "x": x}, reverse=reverse
        )
        leaves = [leaf for leaf in jax.tree.leaves((last, ys)) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        weigh = lambda leaf: jnp.sin(jnp.arange(leaf.size, dtype=leaf.dtype).reshape(leaf.shape))
        return sum((leaf * weigh(leaf)).sum() for leaf in leaves), (last, ys)

    return of


def gradients(scan, body, reverse, weights, carry, xs):
    function = jax.jit(jax.value_and_grad(loss(scan, body, reverse), (0, 1, 2), has_aux=True))
    return function(weights, carry["hidden"], xs["x"], carry, xs)


CASES = {"gru": (gru, False), "lstm": (lstm, True), "decoder": (decoder, True)}


@pytest.mark.parametrize(("body", "reverse"), fast_are(["gru", "lstm"], CASES, several=True))
def test_is_lax_scan_in_values_and_gradients(body, reverse):
    with jax.enable_x64(True):
        arguments = given(body, jnp.float64)
        wanted = gradients(jax.lax.scan, body, reverse, *arguments)
        found = gradients(recurrence, body, reverse, *arguments)
    assert jax.tree.structure(wanted) == jax.tree.structure(found)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        assert a.dtype == b.dtype and (a.dtype == jnp.int32 or np.any(b))
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def dot(a, b):
    return sum(map(jnp.vdot, jax.tree.leaves(a), jax.tree.leaves(b)))


DERIVATIVES = {
    "jvp": lambda f, at, move: jax.jvp(f, at, move)[1],
    "forward_over_reverse": lambda f, at, move: jax.jvp(jax.grad(f, (0, 1, 2)), at, move)[1],
    "reverse_over_reverse": lambda f, at, move: jax.grad(lambda at: dot(jax.grad(f, (0, 1, 2))(*at), move))(at),
}


@pytest.mark.slow
@pytest.mark.parametrize("body", [gru, decoder])
def test_second_derivatives_and_forward_mode_are_those_of_lax_scan(body):
    with jax.enable_x64(True):
        weights, carry, xs = given(body, jnp.float64)
        at = weights, carry["hidden"], xs["x"]
        random = np.random.default_rng(1)
        move = jax.tree.map(lambda a: random.standard_normal(a.shape), at)
        of = lambda scan: lambda *at: loss(scan, body, False)(*at, carry, xs)[0]
        every = jax.jit(lambda f: {n: d(f, at, move) for n, d in DERIVATIVES.items()}, static_argnums=0)
        wanted, found = every(of(jax.lax.scan)), every(of(recurrence))
    for name in DERIVATIVES:
        for a, b in zip(jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


def products(jaxpr, inside=False):
    """{whether inside a loop: number of matrix products}."""
    found = collections.Counter()
    for equation in jaxpr.eqns:
        found[inside] += equation.primitive.name == "dot_general"
        for inner in jaxprs_in_params(equation.params):
            found += products(inner, inside or equation.primitive.name == "scan")
    return found


def test_loops_contain_only_dependent_products():
    """An LSTM's loops have two products forward and one for the state backward.

    The others follow: one for each weight and one for the input.
    """
    weights, carry, xs = given(lstm)
    count = lambda scan: products(
        jax.make_jaxpr(jax.grad(loss(scan, lstm, False), (0, 1, 2), has_aux=True))(
            weights, carry["hidden"], xs["x"], carry, xs
        ).jaxpr
    )
    assert count(recurrence) == {True: 3, False: 3} and count(jax.lax.scan) == {True: 6}


def test_without_differentiation_nothing_is_added():
    weights, carry, xs = given(lstm)
    forward = jax.make_jaxpr(lambda x: recurrence(lambda c, x: lstm(weights, c, x), carry, {"x": x}))(xs["x"])
    assert products(forward.jaxpr) == {True: 2}


@pytest.mark.slow
def test_under_vmap_each_replica_has_its_own_gradients():
    weights, carry, xs = given(gru)
    two = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), weights)
    gradient = lambda scan, w: jax.grad(lambda w: loss(scan, gru, False)(w, carry["hidden"], xs["x"], carry, xs)[0])(w)
    both = jax.jit(jax.vmap(lambda w: gradient(recurrence, w)))(two)
    plain = jax.jit(lambda w: gradient(jax.lax.scan, w))
    wanted = jax.tree.map(lambda a, b: jnp.stack([a, b]), plain(weights), plain(jax.tree.map(lambda a: 2 * a, weights)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-5), both, wanted)


@pytest.mark.parametrize("check_vma", [False, True])
def test_inside_shard_map_the_gradient_of_what_is_shared_is_summed(check_vma):
    weights, carry, xs = given(gru)
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))
    whole, rows = PartitionSpec(), PartitionSpec(None, "data")

    def gradient(scan, sum_over, weights, hidden, x):
        found = jax.grad(loss(scan, gru, False), has_aux=True)(weights, hidden, x, carry, {"x": x})[0]
        return jax.tree.map(sum_over, found)

    over = (lambda a: a) if check_vma else (lambda a: jax.lax.psum(a, "data"))
    mapped = jax.shard_map(
        lambda *a: gradient(recurrence, over, *a), mesh=mesh, in_specs=(whole, PartitionSpec("data"), rows),
        out_specs=whole, check_vma=check_vma,
    )  # fmt: skip
    found = jax.jit(mapped)(weights, carry["hidden"], xs["x"])
    wanted = jax.jit(lambda *a: gradient(jax.lax.scan, lambda g: g, *a))(weights, carry["hidden"], xs["x"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-5), found, wanted)


@pytest.mark.slow
def test_bfloat16_keeps_its_dtypes():
    weights, carry, xs = given(gru)
    low = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (carry, xs))
    (_, (last, ys)), found = gradients(recurrence, gru, False, weights, *low)
    wanted = gradients(jax.lax.scan, gru, False, weights, *low)
    assert ys.dtype == last["hidden"].dtype == jnp.bfloat16
    for a, b in zip(*map(jax.tree.leaves, (found, wanted[1])), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(jnp.float32), b.astype(jnp.float32), atol=0.05 * float(jnp.abs(b).max()))


def test_a_body_that_changes_the_carry_is_refused():
    with pytest.raises(TypeError, match="the body takes the carry .*hidden.* and returns"):
        recurrence(lambda carry, x: ({}, x), {"hidden": jnp.ones((B, D))}, jnp.ones((T, B)))


def test_a_carry_that_is_a_python_number_takes_the_dtype_of_the_body():
    xs, body = jnp.asarray([1, 2, 3.0], jnp.bfloat16), lambda carry, x: (carry + x, carry)
    for one, other in zip(recurrence(body, 0.0, xs), jax.lax.scan(body, 0.0, xs), strict=True):
        assert one.dtype == other.dtype == jnp.bfloat16 and one.tolist() == other.tolist()

"""The longest chain of dependent matrix products: by hand, and for attention and recurrence by length."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attention_research.accounting.depth import measure_depth
from attention_research.kernels import dot_product_attention
from attention_research.layers.recurrent.scan import run
from attention_research.registry import lookup

A = jax.ShapeDtypeStruct((5, 5), jnp.float32)


def many(x, w):
    """Three products in a chain, and two that do not depend on them."""
    return ((x @ w) @ w) @ w + jnp.tanh(w @ x) + x @ x


def turns(x, w):
    """Seven iterations that do not read each other, with two products each."""
    return jax.lax.map(lambda row: row @ w @ w, jnp.broadcast_to(x, (7, 5, 5)))


def chosen(x, w):
    return jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x @ w)


def summing(x, w):
    """A carry that only accumulates: the products of its iterations are independent."""
    return jax.lax.scan(lambda total, row: (total + row @ w, None), x, jnp.broadcast_to(x, (7, 5, 5)))[0]


@pytest.mark.parametrize(("function", "chain"), [(many, 3), (turns, 2), (chosen, 2), (summing, 1), (jnp.add, 0)])
def test_chains_by_hand(function, chain):
    found = measure_depth(function, A, A)
    assert found.chain == chain and found.in_loops == 0 and found.parallel_fraction == 1.0


def counted(x, w):
    """A `while` with five iterations, each of which reads the state before it."""
    return jax.lax.while_loop(lambda state: state[0] < 5, lambda state: (state[0] + 1, state[1] @ w), (0, x))[1]


def until(x, w):
    """A `while` whose number of iterations depends on its values."""
    return jax.lax.while_loop(lambda x: (x @ w).sum() < 5, lambda x: x + 1, x)


def adding(x, w):
    """The products of the three iterations read the input only."""
    return jax.lax.while_loop(lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] + x @ w), (0, x))[1]


def within(x, w):
    """A recurrence in a loop whose iterations are independent."""
    return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + counted(x, w)), (0, x))[1]


#: Function -> (chain, products, products in loops). How often `until` runs is unknown: it counts one iteration.
LOOPS = {counted: (5, 5, 5), until: (1, 1, 1), adding: (1, 3, 0), within: (5, 15, 15)}


@pytest.mark.parametrize("function", LOOPS)
def test_a_while_loop_counts_as_a_scan(function):
    found, product = measure_depth(function, A, A), 2 * 5**3
    assert (found.chain, found.flops // product, found.in_loops // product) == LOOPS[function]


def test_a_while_loop_and_a_scan_of_the_same_steps_agree():
    scanned = lambda x, w: jax.lax.scan(lambda state, _: (state @ w, None), x, length=5)[0]
    assert measure_depth(scanned, A, A) == measure_depth(counted, A, A)


def test_chains_through_remat_and_jit_are_counted():
    inner = jax.jit(jax.checkpoint(lambda x, w: x @ w @ w))
    assert measure_depth(lambda x, w: inner(inner(x, w), w), A, A).chain == 4


@pytest.mark.parametrize("length", [3, 11])
def test_a_recurrence_is_sequential_and_attention_is_not(length):
    cell = lookup("recurrent_cell", "vanilla")(width=5, input_width=5, rngs=nnx.Rngs(0))
    x = jax.ShapeDtypeStruct((2, length, 5), jnp.float32)
    recurrent = measure_depth(lambda x: run(cell, x, cell.initial(2, x.dtype))[0], x)
    assert recurrent.chain == length and recurrent.flops == 2 * 2 * length * 50 == recurrent.in_loops
    assert recurrent.parallel_fraction == 0.0
    heads = jax.ShapeDtypeStruct((2, length, 1, 5), jnp.float32)
    attention = measure_depth(lambda q: dot_product_attention(q, q, q, implementation="reference"), heads)
    assert attention.chain == 2 and attention.parallel_fraction == 1.0

"""Mesh TensorFlow's count of operations, by hand, for programs of a few lines."""

import jax
import jax.numpy as jnp
import pytest

from attention_research.accounting.operations import Operations, count_operations

T, D, F, V = 5, 7, 11, 13


def shapes(*sizes, dtype=jnp.float32):
    return [jax.ShapeDtypeStruct(size, dtype) for size in sizes]


def test_matrix_products_count_multiply_adds_and_constants_count_nothing():
    found = count_operations(lambda x, w: 3.0 * (x @ w), *shapes((T, D), (D, F)))
    assert found == Operations(products=T * D * F)


def test_gathers_count_as_one_hot_products_and_slices_do_not():
    ids = jax.ShapeDtypeStruct((2, T), jnp.int32)
    assert count_operations(lambda table, ids: table[ids], *shapes((V, D)), ids).products == 2 * T * V * D
    assert count_operations(lambda table: table[2:4], *shapes((V, D))).products == 0


def test_selection_by_equality_is_a_look_up_and_by_order_is_not():
    pick = lambda by: lambda x, ids: jnp.sum(jnp.where(by(jnp.arange(V), ids[:, None]), x, 0.0))
    ids = jax.ShapeDtypeStruct((T,), jnp.int32)
    assert count_operations(pick(jnp.equal), *shapes((T, V)), ids).elementwise == T * V
    assert count_operations(pick(jnp.less), *shapes((T, V)), ids).elementwise == 0


def test_products_element_by_element_count_and_functions_count_backward():
    found = count_operations(lambda x, y: jnp.exp(x * y) / y, *shapes((T, D), (T, D)))
    assert found == Operations(elementwise=T * D, functions=2 * T * D)
    assert found.forward == T * D and found.third_of_training == pytest.approx(T * D * (1 + 2 / 3))


def test_integer_operations_do_not_count():
    assert count_operations(lambda x, y: x * y // 3, *shapes((T, D), (T, D), dtype=jnp.int32)) == Operations()


def test_a_running_sum_is_a_product_with_a_triangle():
    assert count_operations(lambda x: jnp.cumsum(x, axis=0), *shapes((T, D))).products == T * T * D


def test_a_scan_counts_as_often_as_it_runs_and_a_branch_at_most():
    layers = lambda x, w: jax.lax.scan(lambda x, w: (jnp.maximum(x @ w, 0.0), None), x, w)[0]
    found = count_operations(layers, *shapes((T, D), (3, D, D)))
    assert found == Operations(products=3 * T * D * D, functions=3 * T * D)
    either = lambda x, w: jax.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x)
    assert count_operations(either, *shapes((T, D), (D, D))).products == T * D * D


def test_a_loop_of_unknown_length_with_products_is_refused():
    loop = lambda x, w: jax.lax.while_loop(lambda x: x[0, 0] > 0, lambda x: x @ w, x)
    with pytest.raises(NotImplementedError, match="unknown length"):
        count_operations(loop, *shapes((T, D), (D, D)))

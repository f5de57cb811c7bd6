"""How blockwise attention divides its work, and bounds on the arrays that it creates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, relative_attention
from attention_research.kernels.attention import layout
from attention_research.kernels.attention.arguments import Options, band
from tests.tiers import fast_are

WINDOWS = {
    "all": (False, None),
    "causal": (True, None),
    "narrow": (False, (7, 3)),
    "left": (True, 101),
    "right": (False, (5000, 41)),
    "left_only": (False, (103, 20000)),
}


@pytest.mark.parametrize("is_causal, window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("query_length, key_length", [(1, 1), (509, 523), (1031, 17), (17, 1031), (12007, 9001)])
def test_the_plan_covers_every_query_once_and_every_visible_key(query_length, key_length, is_causal, window):
    options = Options(1.0, *band(is_causal, window, query_length, key_length))
    cut = layout.plan(query_length, key_length, options)
    assert len(cut.strips) <= layout.MOST_STRIPS and cut.block <= layout.QUERY_BLOCK
    assert (cut.count - 1) * cut.block < query_length <= cut.count * cut.block
    assert [i for s in cut.strips for i in range(s.first, s.last)] == list(range(cut.count))
    for strip in cut.strips:
        assert 0 <= strip.start < strip.stop <= key_length and 0 < strip.width <= strip.stop - strip.start
        for block in range(strip.first, strip.last):
            row = min(block * cut.block, query_length - cut.block)
            start = strip.start
            if strip.width < strip.stop - strip.start:
                start = int(np.clip(row - options.left, strip.start, strip.stop - strip.width))
            first = 0 if options.left is None else max(0, row - options.left)
            last = key_length - 1 if options.right is None else row + cut.block - 1 + options.right
            last = min(last, key_length - 1)
            assert first > last or (start <= first and last < start + strip.width)


def sizes(jaxpr) -> list[tuple[int, tuple[int, ...]]]:
    """(size, shape) of every value in a jaxpr and its nested jaxprs."""
    found = []
    for equation in jaxpr.eqns:
        found += [(int(np.prod(v.aval.shape)), v.aval.shape) for v in equation.outvars]
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += sizes(inner)
    return found


LINEAR = {
    "plain": {},
    "causal": {"is_causal": True},
    "window": {"local_window_size": (100, 50)},
    "mask_keys": {"mask": (3, 1, 1, 2053)},
    "bias_heads": {"bias": (1, 5, 1, 2053), "is_causal": True},
    "bias_scores": {"bias": (1, 1, 2053, 2053), "mask": (1, 1, 2053, 2053)},
    "lengths": {"key_value_seq_lengths": jnp.array([1, 2, 3])},
    "segments": {"query_segments": (3, 2053), "key_segments": (3, 2053), "is_causal": True},
    "distance": {"distance_bias": (5, 4105), "is_causal": True},
}


@pytest.mark.parametrize("case", fast_are(["causal", "bias_scores", "segments"], LINEAR))
def test_forward_and_backward_hold_nothing_larger_than_a_block_of_scores_or_an_input(case):
    """Traced, not run: B = 3, N = 5, T = S = 2053, so that all scores would be 63 million numbers."""
    length = 2053
    dtypes = {"bias": jnp.float32, "mask": jnp.bool_, "distance_bias": jnp.float32}
    dtypes |= {"query_segments": jnp.int32, "key_segments": jnp.int32}
    case = {name: jnp.zeros(v, dtypes[name]) if name in dtypes else v for name, v in case.items()}
    x = jax.ShapeDtypeStruct((3, length, 5, 7), jnp.float32)

    def loss(query, key, value, biases):
        return dot_product_attention(query, key, value, **{**case, **biases}, implementation="blockwise").sum()

    biases = {name: v for name, v in case.items() if "bias" in name}
    traced = jax.make_jaxpr(jax.grad(loss, (0, 1, 2, 3)))(x, x, x, biases)
    given = max([3 * length * 5 * 7, *(v.size for v in case.values() if hasattr(v, "size"))])
    found = sizes(traced.jaxpr)
    block = layout.QUERY_BLOCK * length * (2 if "distance_bias" in case else 1)  # a distance bias has T + S distances
    assert any(size >= block // 4 for size, _ in found) or "local_window_size" in case
    assert max(found)[0] <= max(given, block), max(found)


def test_relative_tables_form_no_matrix_of_scores():
    """Shaw's attention with its value table, traced with T = S = 2053 and k = 16."""
    length, rows = 2053, 33
    shapes = [(1, length, 2, 7)] * 3 + [(rows, 7)] * 2
    inputs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    traced = jax.make_jaxpr(jax.grad(lambda *x: relative_attention(*x).sum(), (0, 1, 2, 3, 4)))(*inputs)
    largest, shape = max(sizes(traced.jaxpr))
    assert largest <= layout.QUERY_BLOCK * length * 1.5, shape


SEGMENTS = jnp.asarray(np.repeat([1, 2, 3, 4, 0], [200, 200, 300, 200, 131])[None])
HIDDEN = {
    "lengths": ({"key_value_seq_lengths": jnp.array([700])}, 1031, 780),
    "segments": ({"query_segments": SEGMENTS, "key_segments": SEGMENTS}, 344, 600),
    "segments_causal": ({"query_segments": SEGMENTS, "key_segments": SEGMENTS, "is_causal": True}, 344, 600),
}


@pytest.mark.parametrize("where, rows, unread", fast_are(["segments"], HIDDEN, several=True))
def test_keys_of_other_segments_and_beyond_the_lengths_are_not_read(where, rows, unread):
    """Keys that no query of the first blocks may see are NaN. If they were read, 0 times NaN would show."""
    random = np.random.default_rng(0)
    query, key, value = (jnp.asarray(random.standard_normal((1, 1031, 2, 3)), jnp.float32) for _ in range(3))
    late = (np.arange(1031) >= unread)[:, None, None]

    @jax.jit
    def run(key, value):
        call = lambda *x: dot_product_attention(*x, **where, implementation="blockwise")[:, :rows]
        output, pull = jax.vjp(call, query, key, value)
        return output, pull(output)[0][:, :rows]

    expected = run(key, value)
    assert np.isfinite(expected[0]).all() and np.any(expected[1])
    for got, want in zip(run(jnp.where(late, jnp.nan, key), jnp.where(late, jnp.nan, value)), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_window_reads_only_its_visible_keys():
    length = 2053
    x = jax.ShapeDtypeStruct((1, length, 1, 2), jnp.float32)
    attend = lambda q: dot_product_attention(q, q, q, local_window_size=(64, 64), implementation="blockwise")
    products = [shape for _, shape in sizes(jax.make_jaxpr(attend)(x).jaxpr) if len(shape) == 2 and min(shape) > 64]
    assert products and max(shape[1] for shape in products) <= layout.SMALLEST_BLOCK + 128


@pytest.mark.slow
def test_real_block_sizes_agree_with_the_reference():
    """T = 1031, S = 521: three ragged blocks of 344 queries, with all arguments at once."""
    random = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(random.standard_normal(s), jnp.float32) for s in ((1, 1031, 2, 3), (1, 521, 1, 3), (1, 521, 1, 5))
    )
    bias = jnp.asarray(random.standard_normal((1, 2, 1, 521)), jnp.float32)
    mask = jnp.asarray(random.random((1, 1, 1031, 1)) < 0.9)

    def gradients(implementation):
        loss = lambda *x: dot_product_attention(*x, mask, is_causal=True, implementation=implementation)[:, ::3].sum()
        return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))(query, key, value, bias)

    for got, want in zip(jax.tree.leaves(gradients("blockwise")), jax.tree.leaves(gradients("reference")), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-4, rtol=2e-4)

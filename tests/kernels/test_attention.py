"""dot_product_attention with every implementation: the oracle, properties, gradients, errors."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import (
    attention_weights,
    causal_mask,
    dot_product_attention,
    explain_implementation,
    window_mask,
)
from attention_research.kernels.attention import layout
from tests.kernels.conftest import attention64
from tests.tiers import fast_are

B, T, S, N, K, H, HV = 2, 13, 11, 6, 3, 5, 7
IMPLEMENTATIONS = ("reference", "blockwise", "xla")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 5 queries: these sizes have several blocks, with a ragged last one and cut windows and triangles."""
    monkeypatch.setattr(layout, "QUERY_BLOCK", 5)
    monkeypatch.setattr(layout, "SMALLEST_BLOCK", 3)
    monkeypatch.setattr(layout, "MOST_STRIPS", 2)
    monkeypatch.setattr(layout, "TOGETHER", 0)


def arrays(heads_of_keys: int = K, value_width: int = HV, dtype=jnp.float32) -> tuple[jax.Array, ...]:
    """query, key, value and a weight for the output."""
    random = np.random.default_rng(1)
    shapes = ((B, T, N, H), (B, S, heads_of_keys, H), (B, S, heads_of_keys, value_width), (B, T, N, value_width))
    return tuple(jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes)


def some(shape: tuple[int, ...], share: float = 0.6) -> jax.Array:
    return jnp.asarray(np.random.default_rng(2).random(shape) < share)


def noise(shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(np.random.default_rng(3).standard_normal(shape), jnp.float32)


LENGTHS = {"query_seq_lengths": jnp.array([13, 4]), "key_value_seq_lengths": jnp.array([0, 7])}
# Examples of unequal lengths with padding between and after them. The second row's segments are not in order.
QUERY_SEGMENTS = jnp.array([[1] * 3 + [2] * 7 + [0] * 3, [3, 3, 1, 1, 1, 0, 0, 2, 2, 2, 2, 2, 2]])
KEY_SEGMENTS = jnp.array([[1] * 5 + [2] * 4 + [0] * 2, [2, 2, 0, 3, 1, 1, 4, 4, 4, 4, 4]])
CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 2},
    "mask_full": {"mask": some((B, N, T, S))},
    "mask_keys": {"mask": some((B, 1, 1, S), 0.4), "is_causal": True},
    "bias_full": {"bias": noise((B, N, T, S))},
    "bias_over_batch_and_heads": {"bias": noise((1, 1, T, S)), "mask": some((1, N, T, 1), 0.7)},
    "bias_over_queries": {"bias": noise((B, 1, 1, S)), "is_causal": True},
    "bias_over_keys": {"bias": noise((1, N, T, 1)), "local_window_size": 3},
    "window": {"local_window_size": (2, 1), "bias": noise((1, N, T, S))},
    "window_causal": {"local_window_size": (3, 9), "is_causal": True, "mask": some((B, 1, T, S))},
    "window_right": {"local_window_size": (40, 2), **LENGTHS},
    "window_left": {"local_window_size": (2, 40), "bias": noise((1, 1, 1, 1))},
    "lengths": LENGTHS,
    "lengths_causal": {"is_causal": True, "bias": noise((1, N, 1, S)), **LENGTHS},
    "segments": {"query_segments": QUERY_SEGMENTS, "key_segments": KEY_SEGMENTS},
    "segments_window": {
        "query_segments": QUERY_SEGMENTS,
        "key_segments": KEY_SEGMENTS,
        "local_window_size": (4, 2),
        "distance_bias": noise((1, T + S - 1)),
    },
    "distance": {"distance_bias": noise((N, T + S - 1))},
    "offset": {"query_offset": -3, "is_causal": True, "bias": noise((1, N, T, S))},
    "offset_bottom_right": {"query_offset": S - T, "is_causal": True},
    "offset_window": {"query_offset": 4, "local_window_size": (2, 1)},
    "offset_left": {"query_offset": 5, "local_window_size": (3, 40), "mask": some((B, 1, 1, S))},
    "offset_far": {"query_offset": -20, "is_causal": True},
    "offset_array": {"query_offset": jnp.array([-2, 6]), "is_causal": True, "local_window_size": (4, 9), **LENGTHS},
    "offset_one_array": {"query_offset": jnp.int32(5), "local_window_size": (3, 40)},
    "soft_cap": {"soft_cap": 0.7, "is_causal": True, "bias": noise((B, 1, T, S))},
    "sink": {"sink": noise((N,)), "is_causal": True, "query_offset": -2},
    "sink_one": {"sink": noise((1,)), **LENGTHS, "soft_cap": 2, "distance_bias": noise((1, T + S - 1))},
    "distance_causal": {"distance_bias": noise((N, T + S - 1)), "is_causal": True, "mask": some((B, 1, T, S))},
}


def value_and_gradients(implementation: str, case: dict, given: tuple[jax.Array, ...]):
    """(output, gradients of sum(output * weight) for query, key, value and, if given, bias and sink)."""
    learned = [name for name in case if "bias" in name or name == "sink"]
    rest = {name: value for name, value in case.items() if name not in learned}
    *qkv, weight = given

    def loss(inputs):
        names = ("query", "key", "value", *learned)
        output = dot_product_attention(**dict(zip(names, inputs, strict=True)), implementation=implementation, **rest)
        return jnp.vdot(output.astype(jnp.float32), weight.astype(jnp.float32)), output

    inputs = (*qkv, *(case[name] for name in learned))
    (_, output), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(inputs)
    return output, gradients


#: Each argument once, in the cases that cover the most paths through the blocks.
FAST = (
    "plain",
    "bias_over_queries",
    "segments_window",
)


@pytest.mark.parametrize("case", fast_are(FAST, CASES))
def test_reference_and_blockwise_are_the_equation_and_gradients_agree(case):
    given = arrays()
    expected, weights = attention64(*given[:3], **case)
    dense, fast = (value_and_gradients(name, case, given) for name in ("reference", "blockwise"))
    for output, _ in (dense, fast):
        np.testing.assert_allclose(output, expected, atol=2e-6, rtol=2e-5)
    for got, want in zip(fast[1], dense[1], strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)
    got = attention_weights(*given[:2], **case)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, weights, atol=2e-6, rtol=2e-5)


XLA = ("plain", "mask_keys", "bias_over_queries", "window_causal", "window_right", "segments_window")


@pytest.mark.parametrize("name", fast_are(["mask_keys", "window_right"], XLA))
def test_xla_is_the_equation_and_gradients_agree(name):
    given = arrays(value_width=H)
    expected, _ = attention64(*given[:3], **CASES[name])
    output, gradients = value_and_gradients("xla", CASES[name], given)
    np.testing.assert_allclose(output, expected, atol=2e-6, rtol=2e-5)
    for got, want in zip(gradients, value_and_gradients("reference", CASES[name], given)[1], strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_gradients_are_finite_differences_in_float64(implementation):
    with jax.enable_x64(True):
        *qkv, _ = arrays(dtype=jnp.float64)
        bias = jnp.asarray(noise((1, N, 1, S)), jnp.float64)
        mask = some((B, 1, T, S))
        lengths = jnp.array([13, 4])

        def attend(*inputs):
            return dot_product_attention(
                *inputs, mask, query_seq_lengths=lengths, local_window_size=(4, 3), implementation=implementation
            )

        assert attend(*qkv, bias).dtype == jnp.float64
        check_grads(jax.jit(attend), (*qkv, bias), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_log_sum_exp_and_its_gradient(implementation):
    """[B T N] against float64, and its gradient against finite differences. An empty row has -inf and gradient 0."""
    with jax.enable_x64(True):
        query, key, value, _ = arrays(dtype=jnp.float64)
        bias, sink = jnp.asarray(noise((1, N, T, S)), jnp.float64), jnp.asarray(noise((N,)), jnp.float64)
        where = {"is_causal": True, "query_offset": -2, "soft_cap": 3}

        def attend(query, key, value, bias, sink=None):
            return dot_product_attention(
                query, key, value, bias, sink=sink, return_residual=True, implementation=implementation, **where
            )

        for some in (None, sink):
            _, weights = attention64(query, key, value, bias, sink=some, **where)
            output, log = jax.jit(attend)(query, key, value, bias, some)
            assert log.shape == (B, T, N) and output.shape == (B, T, N, HV)
            raw = np.einsum("btnh,bsnh->btns", query, jnp.repeat(key, N // K, 2)) * H**-0.5
            logits = 3 * np.tanh(raw / 3) + np.moveaxis(np.asarray(bias), 1, 2)
            seen = np.moveaxis(weights, 1, 2)
            np.testing.assert_allclose(np.exp(logits - log[..., None])[seen > 0], seen[seen > 0], rtol=1e-10)
            if some is None:
                assert np.all(log[:, :2] == -np.inf) and np.all(np.isfinite(log[:, 2:]))
            else:
                np.testing.assert_allclose(log[:, :2], np.broadcast_to(sink, (B, 2, N)))

        def finite(*inputs):
            output, log = attend(*inputs)
            return jnp.sum(jnp.sin(output)), jnp.where(log == -jnp.inf, 0.0, log)

        inputs = (query, key, value, bias)
        check_grads(jax.jit(finite), inputs, order=1, atol=1e-6, rtol=1e-6)
        check_grads(jax.jit(finite), (*inputs, sink), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_keys_in_two_parts_are_joined_by_their_log_sum_exp():
    """The log-sum-exp serves to combine attention over parts of the keys into attention over all keys."""
    query, key, value, weight = arrays()

    def joined(query, key, value):
        cut, parts = 4, []
        for some, offset in ((slice(0, cut), 0), (slice(cut, None), -cut)):
            parts.append(dot_product_attention(
                query, key[:, some], value[:, some], is_causal=True, query_offset=offset, return_residual=True
            ))  # fmt: skip
        (first, log_first), (second, log_second) = parts
        log = jnp.logaddexp(log_first, log_second)
        return first * jnp.exp(log_first - log)[..., None] + second * jnp.exp(log_second - log)[..., None]

    whole = lambda *inputs: dot_product_attention(*inputs, is_causal=True)
    results = [
        jax.jit(jax.value_and_grad(lambda *x, f=form: jnp.vdot(f(*x), weight), (0, 1, 2)))(query, key, value)
        for form in (joined, whole)
    ]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=2e-5, rtol=2e-4), *results)


@pytest.mark.slow
def test_pytorch_agrees_with_output_and_gradients(torch):
    query, key, value, weight = arrays(heads_of_keys=N)
    bias = noise((1, N, T, S))
    leaves = [torch.tensor(np.asarray(x)).requires_grad_() for x in (query, key, value, bias)]
    heads = [x.transpose(1, 2) for x in leaves[:3]]
    output = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=leaves[3]).transpose(1, 2)
    (output * torch.tensor(np.asarray(weight))).sum().backward()
    for implementation in ("reference", "blockwise"):
        got, gradients = value_and_gradients(implementation, {"bias": bias}, (query, key, value, weight))
        np.testing.assert_allclose(got, output.detach().numpy(), atol=2e-6, rtol=2e-5)
        for mine, leaf in zip(gradients, leaves, strict=True):
            np.testing.assert_allclose(mine, leaf.grad.numpy(), atol=2e-5, rtol=2e-4)


EMPTY = {
    "mask": {"mask": jnp.ones((B, 1, T, S), bool).at[0, 0, 4].set(False)},
    "bias": {"bias": jnp.zeros((B, 1, T, S)).at[0, 0, 4].set(-jnp.inf)},
    "key_length": {"key_value_seq_lengths": jnp.array([0, S])},
    "query_length": {"query_seq_lengths": jnp.array([3, T])},
    "window": {"local_window_size": (1, 0)},  # T > S: query 12 sees keys 11 and 12, which do not exist
}


@pytest.mark.parametrize("implementation", fast_are(["reference", "blockwise"], IMPLEMENTATIONS))
@pytest.mark.parametrize("case", fast_are(["mask", "key_length"], EMPTY))
def test_an_empty_row_is_zero_with_zero_gradients(case, implementation):
    query, key, value, weight = arrays(value_width=H)
    row = 12 if "local_window_size" in case else 4
    only = jnp.zeros_like(weight).at[0, row].set(weight[0, row])
    output, gradients = value_and_gradients(implementation, case, (query, key, value, only))
    assert np.all(np.asarray(output[0, row]) == 0) and np.any(np.asarray(output[1, 0]) != 0)
    for gradient in gradients:
        assert np.all(np.asarray(gradient) == 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_causal_attention_has_exactly_no_gradient_from_the_future(implementation):
    query, key, value, weight = arrays(value_width=H)
    row = 6
    only = jnp.zeros_like(weight).at[:, row].set(weight[:, row])
    _, (_, keys, values) = value_and_gradients(implementation, {"is_causal": True}, (query, key, value, only))
    for gradient in (keys, values):
        assert np.all(np.asarray(gradient[:, row + 1 :]) == 0)
        assert np.all(np.any(np.asarray(gradient[:, : row + 1]) != 0, axis=(2, 3)))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_keys_may_be_permuted_and_padded_and_queries_are_equivariant(implementation):
    query, key, value, _ = arrays(value_width=H)
    mask = some((B, 1, T, S))
    random = np.random.default_rng(4)
    keys, queries = random.permutation(S), random.permutation(T)
    attend = jax.jit(lambda q, k, v, m: dot_product_attention(q, k, v, None, m, implementation=implementation))
    expected = attend(query, key, value, mask)
    np.testing.assert_allclose(
        attend(query[:, queries], key[:, keys], value[:, keys], mask[:, :, queries][..., keys]),
        expected[:, queries], atol=1e-6, rtol=1e-5,
    )  # fmt: skip
    hidden = mask.at[..., 8:].set(False)
    other = attend(query, key.at[:, 8:].set(1e4), value.at[:, 8:].set(-1e4), hidden)
    np.testing.assert_array_equal(other, attend(query, key, value, hidden))


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_grouped_heads_equal_repeated_heads(implementation):
    query, key, value, weight = arrays()
    output, (_, keys, values) = value_and_gradients(implementation, {"is_causal": True}, (query, key, value, weight))
    repeated = tuple(jnp.repeat(x, N // K, axis=2) for x in (key, value))
    wide, (_, *summed) = value_and_gradients(implementation, {"is_causal": True}, (query, *repeated, weight))
    np.testing.assert_allclose(output, wide, atol=1e-6, rtol=1e-5)
    for got, want in zip((keys, values), summed, strict=True):
        np.testing.assert_allclose(got, want.reshape(B, S, K, N // K, -1).sum(3), atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_lengths_windows_and_segments_equal_masks(implementation):
    query, key, value, _ = arrays()
    rows, columns = jnp.arange(T)[:, None], jnp.arange(S)[None, :]
    length = (rows < LENGTHS["query_seq_lengths"][:, None, None]) & (
        columns < LENGTHS["key_value_seq_lengths"][:, None, None]
    )
    pairs = [
        ({"is_causal": True}, causal_mask(T, S)),
        ({"local_window_size": (3, 1)}, window_mask(T, S, (3, 1))),
        ({"local_window_size": 0}, window_mask(T, S, 0)),
        ({"is_causal": True, "query_offset": S - T}, causal_mask(T, S, query_offset=S - T)),
        ({"local_window_size": (3, 1), "query_offset": 2}, window_mask(T, S, (3, 1), query_offset=2)),
        (LENGTHS, length[:, None]),
    ]
    for numbers, mask in pairs:
        attend = lambda **where: dot_product_attention(query, key, value, implementation=implementation, **where)
        got, want = jax.jit(lambda attend=attend, numbers=numbers, mask=mask: (attend(**numbers), attend(mask=mask)))()
        np.testing.assert_allclose(got, want, atol=1e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_jax_transforms_change_nothing(implementation):
    query, key, value, weight = arrays()
    bias = noise((1, N, T, S))

    def loss(query, key, value, bias):
        out = dot_product_attention(query, key, value, bias, is_causal=True, implementation=implementation)
        return jnp.vdot(out, weight)

    gradient = jax.grad(loss, (0, 1, 2, 3))
    inputs = (query, key, value, bias)
    expected = jax.jit(gradient)(*inputs)
    stacked = tuple(jnp.stack([x, 2 * x]) for x in inputs)
    twice = jax.tree.map(lambda *x: jnp.stack(x), expected, jax.jit(gradient)(*(2 * x for x in inputs)))
    forms = {
        "checkpoint": (jax.jit(jax.grad(jax.checkpoint(loss), (0, 1, 2, 3)))(*inputs), expected),
        "vmap": (jax.jit(jax.vmap(gradient))(*stacked), twice),
        "scan": (jax.jit(lambda xs: jax.lax.scan(lambda c, x: (c, gradient(*x)), 0, xs)[1])(stacked), twice),
    }
    for name, (got, want) in forms.items():
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-4, err_msg=name)


def derivatives(
    implementation: str, dtype=jnp.float32, only: tuple[str, ...] = (), biased: bool = True
) -> dict[str, jax.Array]:
    """Derivatives of a loss over query, key, value and bias: forward mode, linearize and Hessian-vector products."""
    query, key, value, weight = arrays(value_width=H, dtype=dtype)
    inputs = (query, key, value, *([noise((1, N, 1, S)).astype(dtype)] if biased else []))
    tangents = tuple(jnp.flip(x, 1) for x in inputs)
    mask = some((B, 1, 1, S))

    def loss(*inputs):
        output = dot_product_attention(*inputs, mask=mask, implementation=implementation)
        return jnp.vdot(output.astype(jnp.float32), jnp.sin(output.astype(jnp.float32) + weight.astype(jnp.float32)))

    gradient = jax.grad(loss, tuple(range(len(inputs))))
    slope = lambda *inputs: jax.jvp(loss, inputs, tangents)[1]
    along_gradient = lambda *inputs: sum(jnp.vdot(g, t) for g, t in zip(gradient(*inputs), tangents, strict=True))
    forms = {
        "gradient": gradient,
        "jvp": slope,
        "linearize": lambda *inputs: jax.linearize(loss, *inputs)[1](*tangents),
        "forward over reverse": lambda *inputs: jax.jvp(gradient, inputs, tangents)[1],
        "reverse over reverse": jax.grad(along_gradient, tuple(range(len(inputs)))),
        "forward over forward": lambda *inputs: jax.jvp(slope, inputs, tangents)[1],
    }
    return {name: jax.jit(form)(*inputs) for name, form in forms.items() if name in only or not only}


@pytest.mark.slow  # `test_kernel_laws` tests this for `blockwise` in the fast tier
@pytest.mark.parametrize("implementation", ["blockwise", "xla", "pallas", "splash"])
def test_both_modes_and_second_derivatives_are_those_of_the_reference(implementation):
    biased = implementation != "splash"  # it takes no bias
    want = derivatives("reference", biased=biased)
    for name, got in derivatives(implementation, biased=biased).items():
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want[name]), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-4 * np.abs(y).max(), err_msg=name)


def test_reference_derivatives_are_finite_differences():
    with jax.enable_x64(True):
        step = 1e-5
        query, key, value, weight = arrays(value_width=H, dtype=jnp.float64)
        attend = lambda q: dot_product_attention(q, key, value, is_causal=True, implementation="reference")
        gradient = jax.jit(jax.grad(lambda q: jnp.vdot(attend(q), jnp.sin(attend(q) + weight))))
        product = jax.jit(lambda q: jax.jvp(gradient, (q,), (weight,))[1])(query)
        differences = (gradient(query + step * weight) - gradient(query - step * weight)) / (2 * step)
        np.testing.assert_allclose(product, differences, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_forward_mode_in_bfloat16(implementation):
    exact = derivatives("reference", only=("jvp",))["jvp"]
    for name, got in derivatives(implementation, jnp.bfloat16, only=("jvp", "linearize")).items():
        np.testing.assert_allclose(got, exact, rtol=0.05, err_msg=name)


@pytest.mark.slow
def test_blockwise_inside_shard_map_sums_the_gradient_of_what_is_shared():
    query, key, value, weight = arrays()
    bias = noise((1, N, 1, S))
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()

    def gradient(query, key, value, bias, weight):
        loss = lambda bias: jnp.vdot(dot_product_attention(query, key, value, bias, implementation="blockwise"), weight)
        return jax.grad(loss)(bias)

    mapped = jax.shard_map(gradient, mesh=mesh, in_specs=(split, split, split, whole, split), out_specs=whole)
    inputs = (query, key, value, bias, weight)
    np.testing.assert_allclose(jax.jit(mapped)(*inputs), jax.jit(gradient)(*inputs), atol=1e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["plain", "bias_over_queries", "window_causal"])
def test_bfloat16_blockwise_is_within_twice_the_error_of_bfloat16_reference(case):
    case = CASES[case]
    exact = value_and_gradients("reference", case, arrays())
    low = arrays(dtype=jnp.bfloat16)
    plain = value_and_gradients("reference", case, low)
    fast = value_and_gradients("blockwise", case, low)
    assert fast[0].dtype == jnp.bfloat16
    error = lambda x, y: np.abs(np.asarray(x, np.float32) - np.asarray(y, np.float32)).max()
    assert error(fast[0], exact[0]) <= 2 * error(plain[0], exact[0])
    for got, want, truth in zip(fast[1], plain[1], exact[1], strict=True):
        assert got.dtype == want.dtype
        assert error(got, truth) <= 3 * error(want, truth) + 1e-5


def changed(**changes):
    """Arguments of a valid call, with changes."""
    query, key, value, _ = arrays()
    return {"query": query, "key": key, "value": value, **changes}


ERRORS = {
    "mask_rank": (lambda: changed(mask=jnp.ones((T, S), bool)), r"mask: expected 4 axes \[B N T S\], got .*\[13, 11\]"),
    "mask_axis": (lambda: changed(mask=jnp.ones((B, 1, T, T), bool)), "mask: axis S of .* expected 1 or 11, got 13"),
    "mask_dtype": (lambda: changed(mask=jnp.ones((B, 1, T, S))), "mask: expected bool .*, got float32"),
    "bias_axis": (lambda: changed(bias=jnp.ones((B, 5, T, S))), "bias: axis N of .* expected 1 or 6, got 5"),
    "bias_dtype": (lambda: changed(bias=jnp.ones((B, 1, T, S), bool)), "bias: expected floating point, got bool"),
    "query_rank": (lambda: changed(query=jnp.ones((T, N, H))), "query: expected 4 axes"),
    "key_width": (lambda: changed(key=jnp.ones((B, S, K, 3))), "key: axis H of .* expected 5, got 3"),
    "key_heads": (lambda: changed(key=jnp.ones((B, S, 4, H))), "key: axis K .* divisor of the query's 6 heads, got 4"),
    "value_length": (lambda: changed(value=jnp.ones((B, 17, K, H))), "value: axis S of .* expected 11, got 17"),
    "value_dtype": (lambda: changed(value=jnp.ones((B, S, K, H), jnp.bfloat16)), "value: expected the query's dtype"),
    "lengths": (lambda: changed(query_seq_lengths=jnp.ones((3,), jnp.int32)), "query_seq_lengths: axis B .* 2, got 3"),
    "float_lengths": (lambda: changed(key_value_seq_lengths=jnp.ones((B,))), "expected integers, got float32"),
    "no_width": (lambda: changed(query=jnp.ones((B, T, N, 0)), key=jnp.ones((B, S, K, 0))), "axis H of .* at least 1"),
    "soft_cap": (lambda: changed(soft_cap=0.0), "soft_cap: expected more than 0, got 0.0"),
    "sink_axis": (lambda: changed(sink=jnp.ones((3,))), r"sink: axis N of \[N\]: expected 1 or 6, got 3"),
    "offset_dtype": (lambda: changed(query_offset=jnp.ones(())), "query_offset: expected integers, got float32"),
    "offset_axis": (lambda: changed(query_offset=jnp.ones((3,), jnp.int32)), "query_offset: axis B .* 1 or 2, got 3"),
    "xla_sink": (
        lambda: changed(implementation="xla", value=jnp.ones((B, S, K, H)), sink=jnp.ones((N,))), "'xla': sink: only"
    ),
    "scale_axes": (lambda: changed(scale=jnp.ones((N,))), "scale: expected a number or a floating array without axes"),
    "window": (lambda: changed(local_window_size=(-1, 2)), "local_window_size: expected .* at least 0"),
    "implementation": (lambda: changed(implementation="flash"), "implementation: expected None or one of reference"),
    "xla_value_width": (lambda: changed(implementation="xla"), "'xla': axis Hv of value: expected .* 5, got 7"),
    "cudnn_on_cpu": (
        lambda: changed(implementation="cudnn", value=jnp.ones((B, S, K, H))), "'cudnn': cuDNN needs a GPU"
    ),
}  # fmt: skip


@pytest.mark.parametrize("implementation", fast_are(["None"], [None, "reference", "blockwise", "xla", "pallas"]))
@pytest.mark.parametrize("empty", fast_are(["S"], ["B", "T", "S"]))
def test_an_empty_axis_gives_zeros_with_zero_gradients(empty, implementation):
    sizes = {"B": B, "T": T, "S": S} | {empty: 0}
    batch, rows, columns = sizes.values()
    query, key = jnp.ones((batch, rows, N, H)), jnp.ones((batch, columns, K, H))
    case = {"is_causal": True, "key_value_seq_lengths": jnp.zeros((batch,), jnp.int32), "local_window_size": (2, 1)}
    attend = lambda *inputs: dot_product_attention(*inputs, implementation=implementation, **case)
    output, pull = jax.vjp(jax.jit(attend), query, key, key, jnp.ones((1, 1, rows, columns)))
    assert output.shape == query.shape and not output.any()
    for gradient, like in zip(pull(output), (query, key, key), strict=False):
        assert gradient.shape == like.shape and not gradient.any()
    assert attention_weights(query, key, **case).shape == (batch, N, rows, columns)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_a_scale_may_be_traced_and_has_a_gradient(implementation):
    query, key, value, weight = arrays()
    attend = lambda scale: dot_product_attention(query, key, value, scale=scale, implementation=implementation)
    loss = jax.jit(lambda scale: jnp.vdot(attend(scale), weight))
    np.testing.assert_allclose(jax.jit(attend)(jnp.float32(0.3)), attend(0.3), atol=1e-6)
    slope = (loss(jnp.float32(0.31)) - loss(jnp.float32(0.29))) / 0.02
    np.testing.assert_allclose(jax.grad(loss)(jnp.float32(0.3)), slope, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.int16])
def test_lengths_and_segments_of_every_width_are_the_same(dtype):
    query, key, value, _ = arrays()
    segments = {"query_segments": QUERY_SEGMENTS, "key_segments": KEY_SEGMENTS}
    for case in (LENGTHS, segments):
        narrow = {name: array.astype(dtype) for name, array in case.items()}
        for implementation in ("reference", "blockwise"):
            attend = functools.partial(dot_product_attention, implementation=implementation)
            want, got = jax.jit(lambda *x, f=attend: [f(*x[:3], **where) for where in x[3:]])(
                query, key, value, case, narrow
            )
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"local_window_size": np.int64(1)}, {"local_window_size": 1}),
        ({"local_window_size": (np.int64(2), np.int32(1))}, {"local_window_size": (2, 1)}),
        ({"query_offset": np.int64(2)}, {"query_offset": 2}),
        ({"query_offset": np.array(2)}, {"query_offset": 2}),
        ({"query_offset": np.array([0, 1])}, {"query_offset": jnp.array([0, 1])}),
    ],
    ids=["window", "sides", "offset", "offset_array", "offsets"],
)
def test_numbers_and_offsets_may_be_numpys(ours, theirs, unchecked):
    attend = lambda where: dot_product_attention(*arrays()[:3], is_causal=True, **where)
    np.testing.assert_array_equal(attend(ours), attend(theirs))


@pytest.mark.parametrize("arguments, message", ERRORS.values(), ids=ERRORS)
def test_errors_name_the_argument_and_the_axis(arguments, message, unchecked):
    for function in (dot_product_attention, explain_implementation):
        with pytest.raises(ValueError, match=message) as caught:
            function(**arguments())
        assert "\n" not in str(caught.value)


def test_the_choice_of_an_implementation_is_explained():
    small = explain_implementation(**changed())
    assert small.implementation == "reference" and re.search("13 x 11", small.reason)
    x = jnp.zeros((1, 1024, 1, 2))
    large = explain_implementation(x, x, x)
    assert large.implementation == "blockwise" and re.search("1024 x 1024", large.reason)
    assert explain_implementation(**changed(implementation="blockwise")) == ("blockwise", "asked for")

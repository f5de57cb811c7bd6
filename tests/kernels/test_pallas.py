"""The Pallas kernels, interpreted on the CPU: the equation, every gradient, the laws, and lowering for a GPU."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.accounting.flops import count_flops
from attention_research.kernels import dot_product_attention, explain_implementation, window_mask
from attention_research.kernels.attention import pallas, reference, refusals
from attention_research.kernels.attention.arguments import prepare
from attention_research.kernels.precision import accumulator
from tests.kernels.conftest import attention64
from tests.tiers import fast_are

B, T, S, N, K, H, HV = 2, 23, 19, 6, 3, 5, 7
#: Several blocks along each axis, with ragged last ones.
BLOCKS = pallas.Blocks(query=8, key=4, own=8, step=4)


def noise(*shape: int, seed: int = 3, dtype=jnp.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def some(*shape: int, share: float = 0.6) -> jax.Array:
    return jnp.asarray(np.random.default_rng(2).random(shape) < share)


def inputs(dtype=jnp.float32, heads_of_keys: int = K) -> tuple[jax.Array, ...]:
    """query, key, value and a weight for the output."""
    shapes = ((B, T, N, H), (B, S, heads_of_keys, H), (B, S, heads_of_keys, HV), (B, T, N, HV))
    return tuple(noise(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))


LENGTHS = {"query_seq_lengths": jnp.array([23, 10]), "key_value_seq_lengths": jnp.array([0, 13])}
SEGMENTS = {
    "query_segments": jnp.array([[1] * 9 + [2] * 11 + [0] * 3, [3] * 4 + [1] * 19]),
    "key_segments": jnp.array([[1] * 6 + [2] * 5 + [0] * 3 + [2] * 5, [1] * 2 + [3] * 9 + [5] * 8]),
}
CASES = {
    "plain": {"scale": 2},
    "causal_mask_bias": {"is_causal": True, "mask": some(B, 1, T, S), "bias": noise(1, N, T, S)},
    "window_lengths_key_bias": {"local_window_size": (5, 2), "bias": noise(B, 1, 1, S), **LENGTHS},
    "left_window_query_bias": {"local_window_size": (6, 40), "bias": noise(1, N, T, 1), "mask": some(1, N, 1, S)},
    "segments_one_bias": {"bias": noise(B, N, 1, 1), **SEGMENTS},
    "cap_sink_offset_bias": {
        "soft_cap": 0.8,
        "sink": noise(N),
        "query_offset": -5,
        "is_causal": True,
        "bias": noise(1, N, T, S),
    },  # fmt: skip
    "one_sink": {"sink": noise(1), "local_window_size": (4, 1), "query_offset": 7, **LENGTHS},
    "causal_segments": {"is_causal": True, "local_window_size": (7, 0), **SEGMENTS},
}


@functools.cache
def compiled(options, blocks):
    """(floats, the other arrays, weight) -> ((loss, output), gradients). If `blocks` is None, of the reference."""

    def loss(floats, arrays, weight):
        arguments = arrays._replace(**floats)
        output = reference.attend(arguments, options) if blocks is None else pallas.attend(arguments, options, blocks)
        return jnp.vdot(output.astype(weight.dtype), weight), output

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def value_and_gradients(case: dict, given, blocks: pallas.Blocks | None = None):
    """(output, gradients of sum(output * weight)) of the Pallas kernels with these blocks, or of the reference."""
    names = ("bias", "mask", "scale", "is_causal", "query_seq_lengths", "key_value_seq_lengths", "local_window_size",
             "query_segments", "key_segments")  # fmt: skip
    settings = {**dict.fromkeys(names), "is_causal": False, **case}
    *qkv, weight = given
    later = {name: value for name, value in case.items() if name in ("soft_cap", "sink", "query_offset")}
    arrays, options = prepare(*qkv, *(settings[name] for name in names), **later)
    floats = {name: getattr(arrays, name) for name in ("query", "key", "value")}
    floats |= {name: getattr(arrays, name) for name in ("bias", "sink") if name in case}
    (_, output), gradients = compiled(options, blocks)(floats, arrays, weight.astype(accumulator(weight.dtype)))
    return output, gradients


def segment_mask64(query_segments, key_segments) -> np.ndarray:
    mask = np.zeros((B, 1, T, S), bool)
    for b, i, j in np.ndindex(B, T, S):
        mask[b, 0, i, j] = query_segments[b, i] == key_segments[b, j] != 0
    return mask


@pytest.mark.parametrize("case", fast_are(["causal_mask_bias", "one_sink"], CASES))
def test_pallas_is_the_equation_and_gradients_agree(case):
    given = inputs()
    output, gradients = value_and_gradients(case, given, BLOCKS)
    plain = {name: value for name, value in case.items() if "segments" not in name}
    if "query_segments" in case:
        plain["mask"] = segment_mask64(case["query_segments"], case["key_segments"])
    expected, _ = attention64(*given[:3], **plain)
    np.testing.assert_allclose(output, expected, atol=2e-6, rtol=2e-5)
    _, wanted = value_and_gradients(case, given)
    assert gradients.keys() == wanted.keys()
    for name, want in wanted.items():
        assert gradients[name].shape == want.shape and gradients[name].dtype == want.dtype
        np.testing.assert_allclose(gradients[name], want, atol=2e-5, rtol=2e-4, err_msg=name)


@pytest.mark.slow
def test_log_sum_exp_and_its_gradient():
    query, key, value, _ = inputs()
    sink, weight = noise(N), noise(B, T, N, seed=9)

    def loss(implementation):
        def run(query, key, value, sink):
            output, log = dot_product_attention(
                query, key, value, sink=sink, soft_cap=2, is_causal=True, query_offset=-3, return_residual=True,
                implementation=implementation,
            )  # fmt: skip
            return jnp.sum(jnp.sin(output)) + jnp.vdot(log, weight)

        return jax.jit(jax.value_and_grad(run, (0, 1, 2, 3)))(query, key, value, sink)

    check = lambda got, want: np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)
    jax.tree.map(check, loss("pallas"), loss("reference"))


@pytest.mark.slow
def test_float64_inputs_are_computed_in_float64():
    with jax.enable_x64(True):
        given = inputs(jnp.float64)
        case = {"is_causal": True, "bias": noise(1, N, 1, S, dtype=jnp.float64)}
        output, gradients = value_and_gradients(case, given, BLOCKS)
        expected, wanted = value_and_gradients(case, given)
    np.testing.assert_allclose(output, expected, atol=1e-13, rtol=1e-12)
    for name, want in wanted.items():
        assert gradients[name].dtype == jnp.float64
        np.testing.assert_allclose(gradients[name], want, atol=1e-13, rtol=1e-12, err_msg=name)


@pytest.mark.slow
def test_an_empty_row_is_zero_with_zero_gradients():
    """Row 4 of the first element sees no key: because of a mask, a bias of -inf, or the key length."""
    query, key, value, weight = inputs()
    only = jnp.zeros_like(weight).at[0, 4].set(weight[0, 4])
    cases = {
        "mask": {"mask": jnp.ones((B, 1, T, S), bool).at[0, 0, 4].set(False), "bias": noise(B, 1, T, S)},
        "bias": {"mask": jnp.ones((B, 1, T, S), bool), "bias": noise(B, 1, T, S).at[0, 0, 4].set(-jnp.inf)},
        "lengths": {"key_value_seq_lengths": jnp.array([0, S])},
    }
    for name, case in cases.items():
        output, gradients = value_and_gradients(case, (query, key, value, only), BLOCKS)
        assert not np.any(output[0, 4]) and np.any(output[1, 0]), name
        for which, gradient in gradients.items():
            assert not np.any(gradient), f"{name}: {which}"


@pytest.mark.slow
def test_causal_attention_has_exactly_no_gradient_from_the_future():
    query, key, value, weight = inputs()
    row = 9
    only = jnp.zeros_like(weight).at[:, row].set(weight[:, row])
    _, gradients = value_and_gradients({"is_causal": True}, (query, key, value, only), BLOCKS)
    for name in ("key", "value"):
        assert not np.any(gradients[name][:, row + 1 :])
        assert np.all(np.any(np.asarray(gradients[name][:, : row + 1]) != 0, axis=(2, 3)))


@pytest.mark.slow
def test_padding_does_not_matter():
    query, key, value, weight = inputs()
    case = {"key_value_seq_lengths": jnp.array([9, 13])}
    output, gradients = value_and_gradients(case, (query, key, value, weight), BLOCKS)
    hidden = jnp.arange(S)[None, :, None, None] >= jnp.array([9, 13])[:, None, None, None]
    spoiled = tuple(jnp.where(hidden, 1e4, x) for x in (key, value))
    again, others = value_and_gradients(case, (query, *spoiled, weight), BLOCKS)
    np.testing.assert_array_equal(again, output)
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(others[name], gradient)


@pytest.mark.slow
def test_jax_transforms_change_nothing():
    query, key, value, weight = inputs()

    def loss(query, key, value, length):
        arrays, options = prepare(query, key, value, None, None, None, False, None, length, None)
        return jnp.vdot(pallas.attend(arrays, options, BLOCKS), weight)

    gradient = jax.grad(loss, (0, 1, 2))
    one, two = (query, key, value, jnp.array([11, 19])), (2 * query, key, value, jnp.array([3, 7]))
    stacked = tuple(jnp.stack(pair) for pair in zip(one, two, strict=True))

    @jax.jit
    def forms(one, two, stacked):
        scanned = jax.lax.scan(lambda carry, x: (carry, gradient(*x)), 0, stacked)[1]
        again = jax.grad(jax.checkpoint(loss), (0, 1, 2))(*one)
        return (gradient(*one), gradient(*two)), again, jax.vmap(gradient)(*stacked), scanned

    (first, second), again, mapped, scanned = forms(one, two, stacked)
    for n in range(3):
        np.testing.assert_allclose(again[n], first[n], atol=1e-6, rtol=1e-5)
        for both in (mapped, scanned):
            np.testing.assert_allclose(both[n][0], first[n], atol=1e-6, rtol=1e-5)
            np.testing.assert_allclose(both[n][1], second[n], atol=1e-6, rtol=1e-5)


@pytest.mark.slow
def test_bfloat16_is_within_twice_the_error_of_the_bfloat16_reference():
    case = CASES["causal_mask_bias"]
    exact = value_and_gradients(case, inputs())
    low = inputs(jnp.bfloat16)
    plain, fast = value_and_gradients(case, low), value_and_gradients(case, low, BLOCKS)
    assert fast[0].dtype == jnp.bfloat16
    error = lambda x, y: np.abs(np.asarray(x, np.float32) - np.asarray(y, np.float32)).max()
    assert error(fast[0], exact[0]) <= 2 * error(plain[0], exact[0])
    for name, want in plain[1].items():
        assert fast[1][name].dtype == want.dtype
        assert error(fast[1][name], exact[1][name]) <= 3 * error(want, exact[1][name]) + 1e-5


def test_blocks_outside_the_band_the_lengths_and_the_segments_are_not_visited():
    """The blocks of 4 keys that a block of 8 queries visits, and the blocks of 4 queries for a block of 8 keys."""
    query, key, value, _ = inputs()
    settings = (None, None, None, True, None, jnp.array([10, 19]), (3, 0))
    arrays, options = prepare(query, key, value, *settings)
    assert pallas.visible_ranges(arrays, options, 8, 4).tolist() == [[[0, 2], [1, 3], [3, 3]], [[0, 2], [1, 4], [3, 5]]]
    by_key = pallas.visible_ranges(arrays, options, 8, 4, of_keys=True)
    assert by_key[1].tolist() == [[0, 3], [2, 5], [4, 6]] and int(by_key[0, 2, 1]) <= int(by_key[0, 2, 0])
    packed, options = prepare(query, key, value, *[None] * 3, False, *[None] * 3, *SEGMENTS.values())
    assert pallas.visible_ranges(packed, options, 8, 4).tolist()[0] == [[0, 2], [0, 5], [1, 5]]
    plain, options = prepare(query, key, value, *[None] * 3, False, *[None] * 3)
    assert pallas.visible_ranges(plain, options, 8, 4) is None


def test_flops_are_counted_by_the_pairs_that_the_band_leaves():
    """Two products in the forward pass. The gradient adds seven, since each of its kernels recomputes the scores."""
    *given, _ = inputs()

    def attend(*given):
        return pallas.attend(*prepare(*given, *[None] * 3, True, None, jnp.array([3, 5]), (6, 0)), BLOCKS)

    pairs = B * N * int(np.sum(np.asarray(window_mask(T, S, (6, 0)))))
    assert count_flops(attend, *given).matmul == 2 * pairs * (H + HV)
    gradient = jax.grad(lambda *given: jnp.sum(attend(*given)), (0, 1, 2))
    assert count_flops(gradient, *given).matmul == 2 * pairs * (5 * H + 4 * HV)


@pytest.mark.parametrize("dtype", fast_are(["bfloat16"], {"bfloat16": jnp.bfloat16, "float32": jnp.float32}))
def test_forward_and_gradients_lower_to_triton(dtype):
    """The program for CUDA holds the four kernels. Their results can only be tested on a GPU."""

    def loss(query, key, value, bias, mask, lengths):
        arrays, options = prepare(query, key, value, bias, mask, None, True, lengths, None, (300, 0))
        return jnp.sum(pallas.attend(arrays, options, platform="cuda").astype(jnp.float32))

    shapes = [(2, 521, 4, 80), (2, 509, 2, 80), (2, 509, 2, 48)]
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    given.append(jax.ShapeDtypeStruct((1, 4, 521, 1), jnp.float32))
    given += [jax.ShapeDtypeStruct((2, 1, 1, 509), jnp.bool_), jax.ShapeDtypeStruct((2,), jnp.int32)]
    card = jax.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", 132, "gpu")  # newer versions of JAX need the card
    mesh = jax.sharding.AbstractMesh((1,), ("data",), (jax.sharding.AxisType.Auto,), abstract_device=card)
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = jax.jit(jax.grad(loss, (0, 1, 2, 3))).trace(*given).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("__gpu$xla.gpu.triton") == 4


def test_unsupported_arguments_are_refused(unchecked):
    def refused(width=H, dtype=jnp.float32, distance=None, platform="cpu"):
        shape = lambda *axes: jnp.zeros(axes, dtype)
        arrays, options = prepare(shape(1, 3, 2, width), shape(1, 5, 2, width), shape(1, 5, 2, HV), *[None] * 3, False,
                                  *[None] * 5, distance)  # fmt: skip
        return refusals.pallas(arrays, options, platform)

    assert refused() is None
    assert refused(width=257).startswith("axis H of query: expected up to 256, got 257")
    assert refused(distance=jnp.zeros((2, 7))).startswith("distance_bias:")
    assert refused(platform="cuda") is None
    with jax.enable_x64(True):
        message = refused(dtype=jnp.float64, platform="cuda")
        assert message.startswith("dtype of query: expected bfloat16, float16 or float32")
    assert "need a GPU" in refused(platform="tpu")
    arrays, options = prepare(*inputs()[:3], *[None] * 3, False, *[None] * 3)
    with pytest.raises(ValueError, match="implementation='pallas': these Pallas kernels need a GPU"):
        pallas.attend(arrays, options, platform="tpu")


def chosen_on(platform: str, dtype=jnp.bfloat16, length: int = 64, width: int = 64, **arguments):
    """(implementation, reason) that None selects on this platform. Nothing runs."""
    query, key = jnp.zeros((1, length, 4, width), dtype), jnp.zeros((1, 64, 2, width), dtype)
    return explain_implementation(query, key, key, platform=platform, **arguments)


def test_on_a_gpu_cudnn_is_chosen_where_it_can_and_pallas_where_it_cannot(monkeypatch):
    choose = functools.partial(chosen_on, "cuda")
    lowered_here = choose(is_causal=True)
    assert lowered_here.implementation == "pallas" and "this process has no NVIDIA GPU" in lowered_here.reason
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose(is_causal=True) == ("cudnn", "bfloat16 on cuda")
    assert chosen_on("rocm").implementation == "pallas"
    assert choose(dtype=jnp.float32).implementation == "pallas"
    for name, argument in {
        "bias": {"bias": jnp.zeros((1, 1, 64, 64))},
        "mask": {"mask": jnp.ones((1, 1, 1, 64), bool)},
        "query_segments": dict.fromkeys(("query_segments", "key_segments"), jnp.ones((1, 64), jnp.int32)),
        "local_window_size": {"local_window_size": (3, 5)},
    }.items():
        choice = choose(**argument)
        assert choice.implementation == "pallas" and f"not cudnn: {name}" in choice.reason
    few = choose(dtype=jnp.float32, length=7)
    assert few.implementation == "reference" and "not pallas: axis T of query: expected at least 16" in few.reason
    distance = choose(distance_bias=jnp.zeros((4, 127)))
    assert distance.implementation == "reference" and "not pallas: distance_bias" in distance.reason


def test_on_a_tpu_splash_is_chosen_where_it_can():
    choose = functools.partial(chosen_on, "tpu")
    assert choose(is_causal=True, key_value_seq_lengths=jnp.array([7])).implementation == "splash"
    assert choose(mask=jnp.ones((1, 1, 1, 64), bool)).implementation == "splash"
    masked = choose(mask=jnp.ones((1, 1, 64, 64), bool))
    assert masked.implementation == "reference" and "not splash: mask" in masked.reason
    for name in ("pallas", "cudnn"):
        with pytest.raises(ValueError, match=f"implementation='{name}'"):
            choose(implementation=name)


@pytest.mark.parametrize("name", fast_are(["pallas"], ["pallas", "splash"]))
def test_the_kernels_in_shard_map_need_check_vma_false(name):
    """On a mesh of one device the output equals the reference. The default check_vma=True gives a clear error."""
    query, key, value, _ = inputs()
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.PartitionSpec("data")
    attend = functools.partial(dot_product_attention, implementation=name)
    mapped = functools.partial(jax.shard_map, attend, mesh=mesh, in_specs=(split,) * 3, out_specs=split)
    got = jax.jit(mapped(check_vma=False))(query, key, value)
    plain = dot_product_attention(query, key, value, implementation="reference")
    np.testing.assert_allclose(got, plain, atol=2e-6, rtol=2e-5)
    with pytest.raises(ValueError, match=f"implementation='{name}': query: inside shard_map"):
        mapped()(query, key, value)

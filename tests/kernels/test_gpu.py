"""The kernels on a GPU: `JAX_PLATFORMS=cuda,cpu pytest -n 0 tests/kernels/test_gpu.py`. Without a GPU all are skipped.

The other tests interpret the Pallas kernels on a CPU. Here they are compiled, with tiles of the sizes that users get.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, explain_implementation
from attention_research.kernels.attention import pallas
from attention_research.kernels.state import delta_attention, state_attention
from tests.kernels.conftest import attention64
from tests.kernels.state_members import draws, members, recurrence
from tests.kernels.test_pallas import CASES, inputs, noise, segment_mask64, value_and_gradients

pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
#: The smallest tiles of tensor cores: several blocks on each axis of the small inputs.
SMALL = pallas.Blocks(query=16, key=16, own=16, step=16)


def relative_error(found, expected) -> float:
    """The norm of the difference, relative to the norm of the expected array."""
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_compiled_pallas_is_the_equation(case):
    given = inputs()
    with jax.default_matmul_precision("highest"):
        output, gradients = value_and_gradients(case, given, SMALL)
        _, wanted = value_and_gradients(case, given)
    plain = {name: value for name, value in case.items() if "segments" not in name}
    if "query_segments" in case:
        plain["mask"] = segment_mask64(case["query_segments"], case["key_segments"])
    expected, _ = attention64(*given[:3], **plain)
    np.testing.assert_allclose(output, expected, atol=1e-5, rtol=1e-4)
    for name, want in wanted.items():
        np.testing.assert_allclose(gradients[name], want, atol=5e-5, rtol=5e-4, err_msg=name)


#: Name -> (T, S, query heads, key heads, width, value width, settings). Lengths that are no multiple of a tile.
SHAPES = {
    "64": (301, 301, 4, 4, 64, 64, {}),
    "64_causal_grouped": (301, 301, 4, 2, 64, 64, {"is_causal": True}),
    "128_window": (301, 301, 4, 4, 128, 128, {"is_causal": True, "local_window_size": (70, 0)}),
    "128_causal": (512, 512, 4, 4, 128, 128, {"is_causal": True}),
    "80_bias": (203, 301, 4, 2, 80, 48, {"bias": (1, 4, 203, 301)}),
    "256_causal": (150, 150, 2, 2, 256, 256, {"is_causal": True}),
}


def long(name: str):
    """(arrays, settings) of an entry of SHAPES, in float32."""
    T, S, N, K, H, HV, settings = SHAPES[name]
    shapes = ((2, T, N, H), (2, S, K, H), (2, S, K, HV), (2, T, N, HV))
    arrays = {key: noise(*shape, seed=seed) for seed, (key, shape) in enumerate(zip("qkvw", shapes, strict=True))}
    if "bias" in settings:
        arrays["bias"] = noise(*settings["bias"], seed=9)
    return arrays, {key: value for key, value in settings.items() if key != "bias"}


@functools.partial(jax.jit, static_argnames=("implementation", "settings"))
def attended(arrays, implementation, settings):
    """(output, gradients) of sum(output * weight)."""

    def loss(arrays):
        output = dot_product_attention(
            *(arrays[name] for name in "qkv"), arrays.get("bias"), implementation=implementation, **dict(settings)
        )
        return jnp.vdot(output.astype(jnp.float32), jax.lax.stop_gradient(arrays["w"]).astype(jnp.float32)), output

    return jax.grad(loss, has_aux=True)(arrays)


@pytest.mark.parametrize("implementation", ["pallas", "cudnn", "xla", "blockwise"])
@pytest.mark.parametrize("name", SHAPES)
def test_bfloat16_is_as_exact_as_the_reference(name, implementation):
    """The error against float32 is at most 1.5 times that of the dense form in bfloat16, for the output and each
    gradient."""
    arrays, settings = long(name)
    low = {key: x.astype(jnp.bfloat16) for key, x in arrays.items()}
    exact = {key: x.astype(jnp.float32) for key, x in low.items()}
    settings = tuple(settings.items())
    try:
        explain_implementation(
            *(low[key] for key in "qkv"), low.get("bias"), implementation=implementation, **dict(settings)
        )
    except ValueError as refusal:
        pytest.skip(str(refusal))
    with jax.default_matmul_precision("highest"):
        gradients, output = attended(exact, "reference", settings)
    dense_gradients, dense = attended(low, "reference", settings)
    with jax.numpy_dtype_promotion("standard"):  # jax.nn mixes bfloat16 and float32
        fast_gradients, fast = attended(low, implementation, settings)
    assert fast.dtype == jnp.bfloat16
    assert relative_error(fast, output) <= 1.5 * relative_error(dense, output) + 1e-4
    for key in gradients:
        if key != "w":
            limit = 1.5 * relative_error(dense_gradients[key], gradients[key]) + 1e-3
            assert relative_error(fast_gradients[key], gradients[key]) <= limit, key


@pytest.mark.parametrize("name", ["128_causal", "64_causal_grouped", "80_bias"])
def test_float32_without_tf32_is_exact(name):
    arrays, settings = long(name)
    settings = tuple(settings.items())
    with jax.default_matmul_precision("highest"):
        gradients, output = attended(arrays, "reference", settings)
        fast_gradients, fast = attended(arrays, "pallas", settings)
    assert relative_error(fast, output) < 2e-6
    for key in gradients:
        assert relative_error(fast_gradients[key], gradients[key]) < 1e-5, key


def test_the_default_is_a_fused_kernel():
    given = [noise(2, 128, 4, 64, dtype=jnp.bfloat16)] * 3
    assert explain_implementation(*given, is_causal=True).implementation == "cudnn"
    assert explain_implementation(*given, noise(1, 4, 128, 128), is_causal=True).implementation == "pallas"


@pytest.mark.parametrize("name", ["retnet", "mamba2", "gla", "deltanet", "gated_deltanet", "kda", "rwkv7"])
def test_state_kernels_are_the_recurrence(name):
    given = members(draws(150, 2, 16, 8))[name]
    scale = given.pop("scale")
    low = {key: jnp.asarray(x, jnp.float32)[None] for key, x in given.items()}
    kernel = delta_attention if "beta" in given else state_attention
    with jax.default_matmul_precision("highest"):
        output, state = jax.jit(functools.partial(kernel, scale=scale))(**low)
    exact = {key: np.asarray(x[0], np.float64) for key, x in low.items()}
    want, last = recurrence({**exact, "scale": scale})
    assert relative_error(output[0], want) < 2e-5
    assert relative_error(state[0], last) < 2e-5

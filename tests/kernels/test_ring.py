"""ring_attention: the equation on the gathered sequence for any number of devices, its memory, its errors."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.accounting.programs import inner_programs
from attention_research.kernels import dot_product_attention, ring_attention
from attention_research.kernels.attention import ring
from tests.catalogue.exact import on_a_ring
from tests.kernels.conftest import attention64
from tests.tiers import fast_are

B, T, S, N, K, H, HV = 2, 12, 24, 6, 3, 5, 7


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of at most 2 queries, so that each device has several."""
    monkeypatch.setattr(ring, "BLOCK", 2)


def arrays(keys: int = S) -> list[jax.Array]:
    """query, key, value, and a weight for the output."""
    random = np.random.default_rng(0)
    shapes = ((B, T, N, H), (B, keys, K, H), (B, keys, K, HV), (B, T, N, HV))
    return [jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in shapes]


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 2},
    # The first example has no key at all. The second has none on the second of three devices.
    "mask": {"mask": jnp.stack([jnp.zeros(S, bool), (jnp.arange(S) < 7) | (jnp.arange(S) > 20)])},
}


@pytest.mark.parametrize("devices", fast_are(["3"], (1, 3, 6)))
@pytest.mark.parametrize("case", fast_are(["mask"], CASES.keys()))
def test_the_ring_is_attention_on_the_gathered_sequence(case, devices):
    """Compared with float64 loops. Every gradient is compared with that of the dense kernel."""
    settings = CASES[case]
    *qkv, weight = arrays(T if "is_causal" in settings else S)
    dense = dict(settings)
    if "mask" in dense:
        dense["mask"] = dense["mask"][:, None, None, :]
    want, _ = attention64(*qkv, **dense)
    of = lambda attend: jax.jit(jax.value_and_grad(lambda *x: jnp.vdot(attend(*x), weight), argnums=(0, 1, 2)))
    np.testing.assert_allclose(on_a_ring(devices, *qkv, **settings), want, atol=2e-6)
    _, got = of(lambda *x: on_a_ring(devices, *x, **settings))(*qkv)
    _, expected = of(lambda *x: dot_product_attention(*x, **dense, implementation="reference"))(*qkv)
    for one, other in zip(got, expected, strict=True):
        assert np.abs(other).max() > 0.1
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_memory_does_not_grow_with_the_number_of_devices():
    """With a fixed share for each device, the gradient's largest array has the same size on 2 devices as on 8."""

    def largest(devices: int) -> int:
        share = jnp.zeros((1, 16, 1, 4))
        one = lambda *x: jax.vjp(functools.partial(ring_attention, axis_name="ring", is_causal=True), *x)[1](x[0])
        program = jax.make_jaxpr(one, axis_env=[("ring", devices)])(share, share, share)
        return max(variable.aval.size for equation in _equations(program.jaxpr) for variable in equation.outvars)

    assert largest(2) == largest(8)


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_programs(equation):
            yield from _equations(inner)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"key": (B, S, 4, H)}, "key: axis K of .*: expected a divisor of the query's 6 heads, got 4"),
        ({"mask": (B, S + 1)}, "mask: axis S of .*: expected 24 as in key, got 25"),
        ({"is_causal": True}, "key: axis S of .*: causal ring attention expects the query's 12, got 24"),
    ],
)
def test_a_wrong_shape_is_named(unchecked, change, message):
    shapes = {"query": (B, T, N, H), "key": (B, S, K, H), "value": (B, S, K, HV)}
    given = {name: jnp.zeros(shape, bool if name == "mask" else jnp.float32)
             for name, shape in {**shapes, **change}.items() if name != "is_causal"}  # fmt: skip
    if "key" in change:
        given["value"] = jnp.zeros((B, S, 4, HV))
    with pytest.raises(ValueError, match=message):
        ring_attention(**given, is_causal=change.get("is_causal", False), axis_name="ring")

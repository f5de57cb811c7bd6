"""The state family against its recurrence in float64: chunks, packed rows, padding, printed numbers and stepping."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.state import (
    delta_attention,
    delta_step,
    no_normalized_state,
    normalized_attention,
    normalized_step,
    state_attention,
    state_step,
    taylor_features,
)
from tests.kernels.state_members import draws, members, normalized_members, quotients, recurrence, taylor

#: The second row has three segments and padding between and after them.
T, N, H, HV = 37, 2, 5, 3
REAL = np.ones((2, T), bool)
REAL[1, [9, 10, 35, 36]] = False
RESET = np.zeros((2, T), bool)
RESET[1, [0, 11, 12, 29]] = True
NAMES = tuple(members(draws(2, 1, 2, 2)))

#: Outputs [t n h], t slowest, for draws(4, 2, 4, 2), by an independent program in float64.
PRINTED = {
    "retnet": "-0.053733 -0.018198 -0.470512 -0.599535 0.100382 0.149495 0.138335 -2.134363 -1.519477 -0.857799 "
    "-0.677715 3.497633 -0.356750 -0.229484 -0.080075 2.374219",
    "lightning": "-0.107467 -0.036397 -0.941024 -1.199070 0.221412 0.305982 0.267322 -4.280637 -2.936209 -1.659935 "
    "-1.367955 7.084860 -0.615277 -0.363553 -0.151532 4.864687",
    "mamba2": "-0.053934 -0.018266 -0.520189 -0.662835 0.635220 0.419543 0.549663 -2.232190 -1.379627 -0.811297 "
    "-0.645067 2.376632 0.095174 0.343819 -0.143736 0.704160",
    "gla": "-0.053733 -0.018198 -0.470512 -0.599535 0.112883 0.153729 0.159718 -2.107117 -1.495886 -0.848848 "
    "-0.655997 3.415070 -0.381172 -0.230071 -0.087064 2.311061",
    "deltanet": "-0.015579 -0.005276 -0.090979 -0.115927 0.094371 0.076106 -0.080164 -0.208010 -0.243219 -0.132557 "
    "0.027330 0.118322 -0.224499 -0.138155 0.100153 0.270089",
    "gated_deltanet": "-0.015579 -0.005276 -0.090979 -0.115927 0.138004 0.090884 -0.005052 -0.112301 -0.117306 "
    "-0.067267 0.017475 0.061079 -0.053375 -0.028026 0.003919 0.105853",
    "kda": "-0.015579 -0.005276 -0.090979 -0.115927 0.126623 0.087029 -0.024919 -0.137616 -0.105886 -0.057482 "
    "0.019512 0.029093 -0.038386 -0.018903 -0.006330 0.085791",
    "mlstm": "-0.058753 -0.019898 -0.260549 -0.331997 0.165977 0.158792 -0.031718 -0.353831 -0.606884 -0.347507 "
    "0.118627 0.202544 -0.177280 -0.121432 -0.076861 0.591657",
    "based": "-0.579302 -0.196196 0.898764 1.145222 -0.793070 -0.368091 0.705565 -1.261628 -0.936090 -0.481965 "
    "0.968792 0.293473 -1.038008 -0.615683 0.644390 0.767330",
    "linear": "-0.579302 -0.196196 0.898764 1.145222 -0.900591 -0.454551 0.741876 -0.809269 -0.733459 -0.317229 "
    "0.978057 0.110396 -0.670915 -0.374524 0.744782 0.245610",
    "rwkv7": "0.138309 0.046842 -0.363159 -0.462744 0.016836 0.082932 0.308944 -1.673632 -0.552141 -0.320983 "
    "-0.355530 1.354232 0.451411 0.797337 -0.022604 1.087809",
}


def kernel(given):
    """(output, state) of the member's kernel."""
    return (delta_attention if "beta" in given else state_attention)(**given)


def stacked(first, second):
    """Two sequences as a batch."""
    return {name: jnp.stack([x, second[name]]) for name, x in first.items()}


def stepped(given):
    """(output, state), one position after the other."""
    step, scale = delta_step if "beta" in given else state_step, given["scale"]
    along = {name: x.swapaxes(0, 1) for name, x in given.items() if name != "scale"}
    state = jnp.zeros((2, N, H, HV), given["query"].dtype)
    state, output = jax.lax.scan(lambda state, now: step(state, **now, scale=scale), state, along)
    return output.swapaxes(0, 1), state


@pytest.mark.parametrize("name", PRINTED)
def test_printed_numbers(name):
    inputs = draws(4, 2, 4, 2)
    out = recurrence(members(inputs)[name])[0] if name in NAMES else quotients(normalized_members(inputs)[name])
    np.testing.assert_allclose(out.ravel(), np.array(PRINTED[name].split(), float), atol=6e-7)


@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one == "kda" else pytest.mark.slow) for one in NAMES])
def test_chunks_and_steps_are_the_recurrence(name):
    """Chunks of 8 and of one position, padding, segments that begin inside chunks, and a given state."""
    with jax.enable_x64(True):
        rows = [members(draws(T, N, H, HV, seed))[name] for seed in (0, 1)]
        before = np.random.default_rng(3).standard_normal((2, N, H, HV))
        scale = rows[0].pop("scale")

        @jax.jit
        def found(given, real, reset, before):
            given = {**given, "scale": scale, "mask": real, "reset": reset}
            whole = lambda size: kernel({**given, "chunk_size": size, "initial_state": before})
            return whole(8), whole(64), stepped(given)

        got = found(stacked(*rows), REAL, RESET, before)
    for b, row in enumerate(rows):
        for (out, state), start in zip(got, (before[b], before[b], None), strict=True):
            want, last = recurrence({**row, "scale": scale}, REAL[b], RESET[b], start)
            np.testing.assert_allclose(out[b], want, atol=2e-13)
            np.testing.assert_allclose(state[b], last, atol=2e-13)


@pytest.mark.parametrize("name", ["mlstm", *(pytest.param(one, marks=pytest.mark.slow) for one in ("linear", "based"))])
def test_normalized_chunks_and_steps_are_the_quotients(name):
    """With scales of keys up to e^700, which float64 squares would not hold."""
    with jax.enable_x64(True):
        rows = [normalized_members(draws(T, N, H, HV, seed))[name] for seed in (0, 1)]
        scale, floor = rows[0].pop("scale"), rows[0].pop("floor")
        rows[0]["log_scale"] = 600 + 50 * rows[0]["log_scale"]

        @jax.jit
        def found(given, real, reset):
            given = {**given, "mask": real, "reset": reset}
            along = {name: x.swapaxes(0, 1) for name, x in given.items()}
            state = no_normalized_state(2, N, given["query"].shape[-1], HV, jnp.float64)
            step = lambda state, now: normalized_step(state, **now, scale=scale, floor=floor)
            last, output = jax.lax.scan(step, state, along)
            whole = normalized_attention(**given, scale=scale, floor=floor, chunk_size=8)
            return whole, (output.swapaxes(0, 1), last)

        got = found(stacked(*rows), REAL, RESET)
    for out, _ in got:
        for b, row in enumerate(rows):
            want = quotients({**row, "scale": scale, "floor": floor}, REAL[b], RESET[b])
            np.testing.assert_allclose(out[b], want, rtol=1e-11, atol=1e-11)
    for one, other in zip(got[0][1], got[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_taylor_features():
    x = np.random.default_rng(0).standard_normal((3, 5))
    np.testing.assert_allclose(taylor_features(jnp.float32(x)), [taylor(row) for row in x], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("member", ["retnet", pytest.param("kda", marks=pytest.mark.slow)])
def test_decays_to_zero_cost_few_digits(member):
    """Decays of e^-1000 and of 0 between positions in float32: the output and the gradients of the small decays."""
    given = members(draws(T, 1, H, HV))[member]
    decay = np.full(given["log_decay"].shape, -0.01)
    decay[3], decay[[8, 20]] = -np.inf, -1000
    given["log_decay"] = decay
    scale = given.pop("scale")
    arrays = {name: jnp.asarray(x, jnp.float32)[None] for name, x in given.items()}
    cotangent = np.random.default_rng(1).standard_normal((T, 1, HV))
    loss = lambda decay: jnp.sum(kernel({**arrays, "log_decay": decay, "scale": scale})[0] * jnp.float32(cotangent))
    output, gradient = jax.jit(lambda g: (kernel({**arrays, "log_decay": g, "scale": scale})[0], jax.grad(loss)(g)))(
        arrays["log_decay"]
    )
    want = lambda decay: recurrence({**given, "log_decay": decay, "scale": scale})[0]
    np.testing.assert_allclose(output[0], want(decay), atol=4e-4)
    for at in (5, 12, 30):
        step = np.zeros_like(decay)
        step[at] = 1e-4
        slope = np.sum((want(decay + step) - want(decay - step)) * cotangent) / 2e-4
        np.testing.assert_allclose(np.sum(gradient[0, at]), slope, rtol=1e-3, atol=2e-3)


def test_a_negative_sum_of_weights_divides_too():
    ones, value = jnp.ones((1, 2, 1, 1)), jnp.asarray([1.0, 3.0]).reshape(1, 2, 1, 1)
    output, _ = normalized_attention(ones, -ones, value, log_scale=jnp.zeros((1, 2, 1)))
    assert output.ravel().tolist() == [1.0, 2.0]

"""`selective_scan` against float64 NumPy, one position after the other: masks, resets, states, chunks and steps."""

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels.state import selective_scan, selective_step

B, T, C, H = 2, 11, 3, 5
random = np.random.default_rng(0)
GIVEN = {
    "query": random.standard_normal((B, T, H)),
    "key": random.standard_normal((B, T, H)),
    "value": random.standard_normal((B, T, C)),
    "step_size": random.uniform(0.01, 2.0, (B, T, C)),
}
RATE, STATE = -random.uniform(0.1, 4.0, (C, H)), random.standard_normal((B, C, H))
REAL, RESET = random.random((B, T)) < 0.7, random.random((B, T)) < 0.3


def oracle(mask, reset, state):
    """(output, last state), channel by channel."""
    outputs, last = np.zeros((B, T, C)), np.array(state)
    for b, c in np.ndindex(B, C):
        h = last[b, c]
        for t in range(T):
            query, key, x, dt = (GIVEN[name][b, t] for name in GIVEN)
            h = 0 * h if reset[b, t] else h
            h = np.exp(dt[c] * RATE[c]) * h + dt[c] * x[c] * key if mask[b, t] else h
            outputs[b, t, c] = query @ h
        last[b, c] = h
    return outputs, last


def test_chunks_and_steps_are_the_equation():
    ones, none = np.ones((B, T), bool), np.zeros((B, T), bool)
    given, rate = {name: jnp.float32(x) for name, x in GIVEN.items()}, jnp.float32(RATE)
    cases = {
        "plain": (ones, none, np.zeros_like(STATE), {"chunk_size": 64}),
        "all": (REAL, RESET, STATE, {"chunk_size": 4}),
        "reset": (ones, RESET, STATE, {"chunk_size": 1}),
    }

    @jax.jit
    def everything():
        found = {}
        for name, (mask, reset, state, settings) in cases.items():
            places = {"mask": jnp.asarray(mask), "reset": jnp.asarray(reset)} if name != "plain" else {}
            places |= {"initial_state": jnp.float32(state)} if name != "plain" else {}
            found[name] = selective_scan(**given, rate=rate, **places, **settings)
        along = {name: x.swapaxes(0, 1) for name, x in {**given, "mask": REAL, "reset": RESET}.items()}
        step = lambda state, now: selective_step(state, **now, rate=rate)
        state, outputs = jax.lax.scan(step, jnp.float32(STATE), along)
        return {**found, "steps": (outputs.swapaxes(0, 1), state)}

    found = everything()
    for name, (mask, reset, state, _) in {**cases, "steps": cases["all"]}.items():
        for got, want in zip(found[name], oracle(mask, reset, state), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=name)


def test_padding_may_hold_anything():
    real = jnp.asarray(REAL)
    given = {name: jnp.float32(x) for name, x in GIVEN.items()}
    filled = {name: jnp.where(real[..., None], x, jnp.nan) for name, x in given.items()}
    run = jax.jit(lambda given: selective_scan(**given, rate=jnp.float32(RATE), mask=real))
    (wanted, last), (found, state) = run(given), run({**filled, "query": given["query"]})
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(state, last)


def test_the_gradient_does_not_depend_on_the_chunks():
    given = {name: jnp.float32(x) for name, x in {**GIVEN, "rate": RATE, "initial_state": STATE}.items()}
    loss = lambda given, size: jnp.sum(selective_scan(**given, chunk_size=size)[0] ** 2)
    small, whole = jax.jit(lambda given: [jax.grad(loss)(given, size) for size in (3, 11)])(given)
    for name in given:
        assert np.abs(whole[name]).max() > 0.01
        np.testing.assert_allclose(small[name], whole[name], atol=1e-4, err_msg=name)

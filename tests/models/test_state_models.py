"""Decoder-only models whose self-attention keeps a state: causality, stepping, padding, packed rows, live parameters.

The kinds in an encoder-decoder model are in test_transformer.py, and after a source in test_language_model.py.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from facts import QUICKLY, T_SEEN, assert_alive, assert_causal, assert_stepping_is_the_full_forward, moved

from attention_research.tokens import BOS
from tests.layers.state_kinds import FAST, STATE_KINDS

ROWS, T = 3, 11
LENGTHS = (11, 6, 4)


@pytest.fixture(scope="module")
def batch():
    tokens = np.random.default_rng(0).integers(4, 29, (ROWS, T))
    tokens[np.arange(T) >= np.array(LENGTHS)[:, None]] = 0
    return jnp.asarray(tokens, jnp.int32)


def packed(tokens):
    """Rows 1 and 2 in one row, and one position of padding."""
    first, second = LENGTHS[1:]
    place = lambda parts: jnp.asarray(np.concatenate([*parts, [0] * (T - first - second)])[None], jnp.int32)
    return {
        "target": place([tokens[1, :first], tokens[2, :second]]),
        "target_segments": place([[1] * first, [2] * second]),
        "target_positions": place([range(first), range(second)]),
    }


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in STATE_KINDS],
)
def points(request, small, batch):
    """The quantities that the tests check, at random parameters and after an update, by one program."""
    structure, parameters = small(
        kind="transformer_decoder",
        positions={"kind": "none"},
        self_attention={"kind": request.param, **STATE_KINDS[request.param]},
    )

    def likelihood(p, batch):
        values, _ = structure.merge(p).log_likelihood(batch)
        return -jnp.sum(values["log_likelihood"], where=values["mask"]), values

    def stepped(p):
        model = structure.merge(p)

        def step(carry, target):
            cache, log_p, _ = model.step(*carry)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], 1)[:, 0]

        return jax.lax.scan(step, (model.start(ROWS), jnp.full((ROWS,), BOS, jnp.int32)), batch.T)[1].T

    def seen(p, extra):
        model = structure.merge(p)
        x = model.vocabulary.target(batch) + extra
        return jnp.sum(jnp.sin(model.decoder(x, jnp.arange(T, dtype=jnp.int32)[None], None)[0][:, T_SEEN]))

    def everything(p):
        (_, values), gradients = jax.value_and_grad(likelihood, has_aux=True)(p, {"target": batch})
        alone = likelihood(p, {"target": jnp.pad(batch[1:2], [(0, 0), (0, 2)])})[1]
        return {
            **values, "gradients": gradients, "stepped": stepped(p), "alone": alone["log_likelihood"],
            "packed": likelihood(p, packed(np.asarray(batch)))[1]["log_likelihood"],
            "seen": jax.grad(seen, argnums=1)(p, jnp.zeros((ROWS, T, 12))),
        }  # fmt: skip

    run = jax.jit(everything, compiler_options=QUICKLY)
    look = lambda p: jax.tree.map(np.asarray, run(p))
    first = look(parameters)
    return first, look(moved(parameters, first["gradients"]))


def test_every_parameter_is_alive(points):
    assert_alive(*points)


def test_steps_are_the_full_forward(points):
    for point in points:
        assert_stepping_is_the_full_forward(point)


def test_the_future_has_exactly_zero_gradient(points):
    assert_causal(points[0])


def test_a_row_alone_and_packed_rows_are_the_rows_of_the_batch(points):
    first, second = LENGTHS[1:]
    for point in points:
        full, both = point["log_likelihood"], point["packed"][0]
        np.testing.assert_allclose(point["alone"][0, :first], full[1, :first], atol=3e-5)
        np.testing.assert_allclose(both[:first], full[1, :first], atol=3e-5)
        np.testing.assert_allclose(both[first : first + second], full[2, :second], atol=3e-5)

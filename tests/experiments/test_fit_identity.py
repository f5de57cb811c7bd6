"""Stacks and their fit against the same in PyTorch, and identities that a block represents exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.identity.fitting import (
    LAST,
    NEAR,
    apply_blocks,
    best,
    draw_blocks,
    errors,
    near_identity,
)

D, BLOCKS = 5, 3


def in_torch(torch, weights, x, activation, residual):
    for layer in range(len(weights["hidden"])):
        one = {name: value[layer] for name, value in weights.items()}
        y = activation(x @ one["hidden"] + one["hidden_bias"]) @ one["output"] + one["output_bias"]
        x = x + y if residual else y
    return x


@pytest.mark.slow
@pytest.mark.parametrize("residual", [False, True])
def test_errors_are_those_of_adam_in_pytorch(residual, torch):
    """Eleven updates on the same vectors, from the same start."""
    key, rate, steps, batch = jax.random.key(5), 0.01, 11, 7
    sizes = {"blocks": BLOCKS, "width": D, "activation": "tanh", "residual": residual}
    target = lambda x: x + NEAR * x**2
    ours = errors(key, target, rates=(0.5, rate), steps=steps, batch_size=batch, **sizes)
    draws, start = jax.random.split(key)
    weights = {name: torch.tensor(np.asarray(x, np.float64), requires_grad=True)
               for name, x in draw_blocks(start, BLOCKS, D).items()}  # fmt: skip
    optimizer = torch.optim.Adam(weights.values(), lr=rate)
    theirs = []
    for own in jax.random.split(draws, steps):
        x = torch.tensor(np.asarray(jax.random.normal(own, (batch, D)), np.float64))
        wanted = target(x)
        error = ((in_torch(torch, weights, x, torch.tanh, residual) - wanted) ** 2).mean() / (wanted**2).mean()
        theirs.append(error.item())
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    np.testing.assert_allclose(ours[1], theirs, rtol=2e-4)
    assert ours.shape == (2, steps) and not np.allclose(ours[0], theirs, rtol=0.1)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_plain_block_can_be_the_identity_and_a_residual_one_is_it_at_zero(activation):
    one = np.eye(D)
    pair = {"hidden": np.concatenate([one, -one], axis=1)[None], "hidden_bias": np.zeros((1, 1, 2 * D)),
            "output": np.concatenate([one, -one], axis=0)[None], "output_bias": np.zeros((1, 1, D))}  # fmt: skip
    stacked = {name: jnp.asarray(np.repeat(x, BLOCKS, axis=0), jnp.float32) for name, x in pair.items()}
    x = jax.random.normal(jax.random.key(0), (11, D))
    np.testing.assert_allclose(apply_blocks(stacked, x, activation, residual=False), x, atol=1e-5)
    zero = jax.tree.map(jnp.zeros_like, stacked)
    np.testing.assert_array_equal(apply_blocks(zero, x, activation, residual=True), x)


def test_the_near_identity_has_the_stated_distance():
    matrix = np.random.default_rng(0).standard_normal((D, D)).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((3, D)).astype(np.float32)
    want = x + 0.1 * np.tanh(x.astype(np.float64) @ matrix)
    np.testing.assert_allclose(near_identity(jnp.asarray(matrix))(jnp.asarray(x)), want, rtol=1e-5)


def test_the_best_rate_is_the_one_that_ends_lowest():
    found = np.array([[1.0] * 30, [1.0] * 10 + [0.5] * 20, [0.1] + [np.nan] * 29])
    late = found[:, 10:]
    assert best(late, 0.6) == (0.5, 0) and best(found[:2], 0.6)[1] == 10 and best(found, 0.6)[1] == 0
    assert best(found[2:], 0.01) == (None, None)


def test_the_rate_is_chosen_on_other_updates_than_the_reported():
    """The first rate has the lower reported loss, the second the lower loss where the rate is chosen."""
    found = np.array([[0.9, 0.1] * (LAST // 2), [0.2, 0.7] * (LAST // 2)])
    before = np.zeros((2, 6))
    assert best(np.concatenate([before, found], axis=1), 0.0) == (pytest.approx(0.7), 0)

"""The Switch layer token by token, and its balance loss as part of a task's loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.feed_forward.switch import FEWEST_PLACES, SwitchFeedForward
from attention_research.registry import lookup
from attention_research.signatures import Constructor
from attention_research.tasks.auxiliary import auxiliary_loss, auxiliary_sums

B, T, D, E, F = 2, 24, 6, 3, 10


def layer(**settings):
    expert = lambda rngs: DenseFeedForward(width=D, hidden_width=F, rngs=rngs)
    return SwitchFeedForward(width=D, num_experts=E, expert=expert, rngs=nnx.Rngs(0), **settings)


@pytest.mark.slow
def test_each_token_uses_its_expert_while_places_remain():
    """Compared with a loop over tokens in float64. With fewer places than tokens, some tokens are dropped."""
    switch, x = layer(capacity_factor=0.6), np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
    y, aux = jax.jit(lambda x: switch(x))(jnp.asarray(x))
    places, wanted, dropped = max(int(T * 0.6 / E), FEWEST_PLACES), np.zeros((B, T, D)), np.zeros(B)
    weight = lambda variable: np.asarray(variable[...], np.float64)
    hidden, output = switch.experts.hidden, switch.experts.output
    for b in range(B):
        taken = np.zeros(E, int)
        for t in range(T):
            logits = x[b, t] @ weight(switch.router.kernel)
            p = np.exp(logits) / np.exp(logits).sum()
            e = int(np.argmax(p))
            taken[e] += 1
            if taken[e] > places:
                dropped[b] += 1 / T
                continue
            inside = np.maximum(x[b, t] @ weight(hidden.kernel)[e] + weight(hidden.bias)[e], 0)
            wanted[b, t] = p[e] * (inside @ weight(output.kernel)[e] + weight(output.bias)[e])
    assert dropped.max() > 0
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    np.testing.assert_allclose(aux["metrics"]["dropped"], dropped, atol=1e-6)


def test_a_rows_auxiliary_losses_count_as_its_tokens():
    of_layers, of_one = jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), jnp.asarray([5.0, 6.0])
    aux = {"a": {"loss": {"balance": of_layers}}, "b": {"loss": {"z": of_one}}}
    mask = jnp.asarray([[True, True, False], [True, False, False]])
    assert auxiliary_loss(aux, mask) == pytest.approx(2 * (1 + 3 + 5) + 1 * (2 + 4 + 6))
    assert auxiliary_loss({"attention_weights": jnp.ones((2, 2))}, mask) is None


def test_losses_are_logged_by_name_and_figures_as_a_layers_mean():
    two = {"loss": {"balance": jnp.asarray([[1.0, 2.0], [3.0, 4.0]])}, "metrics": {"dropped": jnp.ones((2, 2)) / 4}}
    one = {"loss": {"balance": jnp.asarray([[5.0, 6.0]])}, "metrics": {"dropped": jnp.asarray([[1.0, 0.0]])}}
    aux = {"encoder": {"segment_0": {"f": two}}, "decoder": {"segment_1": {"f": one, "loss": {"ponder": jnp.ones(2)}}}}
    mask = jnp.asarray([[True, True, False], [True, False, False]])
    sums = auxiliary_sums(aux, mask)
    assert sums.keys() == {"balance", "ponder", "dropped"}
    assert sums["balance"] == pytest.approx(2 * (1 + 3 + 5) + 1 * (2 + 4 + 6)) and sums["ponder"] == 3
    assert sums["dropped"] == pytest.approx(2 * (1 / 4 + 1 / 4 + 1) / 3 + (1 / 4 + 1 / 4 + 0) / 3)
    assert auxiliary_sums({"attention_weights": jnp.ones((2, 2))}, mask) == {}


@pytest.mark.slow
def test_the_balance_reaches_the_router():
    x = jax.random.normal(jax.random.key(0), (B, T, D))
    balance = lambda switch: switch(x)[1]["loss"]["balance"].sum()
    assert np.abs(jax.jit(jax.grad(balance))(layer(balance_weight=1.0)).router.kernel[...]).max() > 1e-3


@pytest.mark.parametrize("kind", ["switch", "switch_released", "mixture_of_experts"])
def test_padding_is_zero_and_does_not_change_real_tokens(kind):
    expert = Constructor(DenseFeedForward, {"width": 4, "hidden_width": 5})
    layer = lookup("feed_forward", kind)(width=4, num_experts=2, expert=expert, rngs=nnx.Rngs(0))
    x, real = np.random.default_rng(0).standard_normal((1, 8, 4)).astype(np.float32), np.arange(8)[None] < 5
    run = jax.jit(lambda x: layer(x, real=jnp.asarray(real))[0])
    one, other = (run(jnp.asarray(y, jnp.float32)) for y in (x, np.where(real[..., None], x, 9)))
    np.testing.assert_array_equal(one, other)
    assert not np.any(np.asarray(one)[~real]) and np.any(np.asarray(one)[real])

"""Mixture of experts and Switch as released, token by token in float64: groups, random draws, counts, balance."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.kernels import top_2_routing
from attention_research.layers.block import Block
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.feed_forward.experts import FEWEST_PLACES, number_of_groups
from attention_research.layers.feed_forward.mixture_of_experts import MixtureOfExperts
from attention_research.layers.feed_forward.switch_released import ReleasedSwitchFeedForward
from attention_research.layers.structure import abstract

B, T, D, E, F = 3, 22, 7, 5, 11
KINDS = {"mixture_of_experts": MixtureOfExperts, "switch_released": ReleasedSwitchFeedForward}


def layer(kind, width=D, num_experts=E, hidden_width=F, seed=0, **settings):
    expert = functools.partial(DenseFeedForward, width=width, hidden_width=hidden_width, use_bias=False)
    return lambda rngs=None: KINDS[kind](
        width=width, num_experts=num_experts, expert=expert, rngs=rngs or nnx.Rngs(seed), **settings
    )


def inputs(seed=0):
    return np.random.default_rng(seed).standard_normal((B, T, D)).astype(np.float32)


def softmax(x):
    exponents = np.exp(x - x.max())
    return exponents / exponents.sum()


def token_by_token(module, x, read, groups, capacity, chooses):
    """(y, balance and share of dropped tokens for each group), by algorithm 1 of GShard in float64.

    `read` is the router's input, and `chooses` maps p to a list of (expert, gate). First choices take places before
    second choices.
    """
    router, up, down = (
        np.asarray(kernel[...], np.float64)
        for kernel in (module.router.kernel, module.experts.hidden.kernel, module.experts.output.kernel)
    )
    tokens, read = (np.asarray(z, np.float64).reshape(groups, -1, D) for z in (x, read))
    y, balance, dropped = np.zeros_like(tokens), np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        size, taken, seated = tokens.shape[1], np.zeros(E, int), set()
        p = [softmax(read[g, s] @ router) for s in range(size)]
        choices = [chooses(g, s, p[s]) for s in range(size)]
        for rank in range(max(map(len, choices))):
            for s in range(size):
                if len(choices[s]) <= rank:
                    continue
                e, gate = choices[s][rank]
                taken[e] += 1
                if taken[e] <= capacity:
                    seated.add(s)
                    y[g, s] += gate * (np.maximum(tokens[g, s] @ up[e], 0) @ down[e])
            taken = np.minimum(taken, capacity)
        chosen = np.bincount([one[0][0] for one in choices], minlength=E) / size
        balance[g] = E**2 * np.mean(chosen * np.mean(p, axis=0))
        dropped[g] = 1 - len(seated) / size
    return y.reshape(B, T, D), balance, dropped


def best_two(keeps):
    def chooses(g, s, p):
        first, second = np.argsort(-p)[:2]
        g1, g2 = p[[first, second]] / (p[first] + p[second])
        return [(first, g1)] + ([(second, g2)] if keeps(g, s, g2) else [])

    return chooses


def best(g, s, p):
    return [(int(np.argmax(p)), p.max())]


def close(got, wanted, weight):
    (y, aux), (y_, balance, dropped) = got, wanted
    of_rows = lambda value: np.repeat(value, B * T // len(value)).reshape(B, T).mean(1)
    np.testing.assert_allclose(y, y_, atol=1e-5)
    np.testing.assert_allclose(aux["loss"]["balance"], weight * of_rows(balance), rtol=1e-5)
    np.testing.assert_allclose(aux["metrics"]["dropped"], of_rows(dropped), atol=1e-6)


@pytest.mark.parametrize(
    ("group_size", "factor"), [(11, 0.6), (33, 0.6), (1024, 5.0)], ids=("half-rows", "rows-and-a-half", "one-group")
)
def test_a_mixture_is_algorithm_1(group_size, factor):
    settings = {"group_size": group_size, "capacity_factor": factor, "evaluation_capacity_factor": factor}
    module, x, key = layer("mixture_of_experts", **settings)(), 3 * inputs(), jax.random.key(3)
    groups = max(1, B * T // group_size)
    size = B * T // groups
    capacity = max(int(size * factor / E), FEWEST_PLACES)
    wanted = token_by_token(module, x, x, groups, capacity, best_two(lambda g, s, gate: gate > 0.2))
    assert (wanted[2].max() > 0) == (factor < 1)
    close(jax.jit(lambda x: module(x))(jnp.asarray(x)), wanted, 0.01)
    drawn = np.asarray(jax.random.uniform(key, (groups, size)))
    wanted = token_by_token(module, x, x, groups, capacity, best_two(lambda g, s, gate: drawn[g, s] < gate / 0.2))
    close(jax.jit(lambda x: module(x, key=key))(jnp.asarray(x)), wanted, 0.01)


def test_a_released_switch_is_equations_1_and_2_of_a_jittered_input():
    settings = {"group_size": 33, "capacity_factor": 0.8, "evaluation_capacity_factor": 3.0, "jitter": 0.4}
    module, x, key = layer("switch_released", **settings)(), inputs(), jax.random.key(3)
    close(jax.jit(lambda x: module(x))(jnp.asarray(x)), token_by_token(module, x, x, 2, int(33 * 3 / E), best), 0.01)
    read = x.reshape(2, 33, D) * np.asarray(jax.random.uniform(key, (2, 33, D), minval=0.6, maxval=1.4))
    wanted = token_by_token(module, x, read, 2, int(33 * 0.8 / E), best)
    assert wanted[2].max() > 0
    close(jax.jit(lambda x: module(x, key=key))(jnp.asarray(x)), wanted, 0.01)


def test_the_second_expert_is_used_with_the_probability_of_its_gate():
    """P = min(1, g2 / threshold): half of the time at g2 = 0.1, always at 0.3."""

    route = jax.jit(lambda logits: top_2_routing(logits, capacity=50, key=jax.random.key(1)))

    def share(gate):
        logits = jnp.log(jnp.broadcast_to(jnp.asarray([1 - gate, gate, 1e-9]), (100, 50, 3)))
        routed = route(logits)
        return float(jnp.mean(routed.dispatch[:, :, 1].any(-1)))

    assert share(0.1) == pytest.approx(0.5, abs=0.02) and share(0.3) == 1.0


@pytest.mark.parametrize("replicas", (1, 2, 3, 8))
@pytest.mark.parametrize("group_size", (1, 5, 16, 64))
def test_groups_are_mesh_tensorflows(group_size, replicas):
    """Copies its loop, over numbers of tokens that the replicas divide."""
    for tokens in range(replicas, 400, replicas):
        groups = max(1, tokens // group_size)
        while groups % replicas or tokens % groups:
            groups += 1
        assert number_of_groups(tokens, group_size, replicas) == groups
    assert tokens and number_of_groups(4, 1024, 32) == 4 == math.gcd(4, 32)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_independent(kind):
    """The gradient of one group's outputs reaches its own tokens only."""
    module = layer(kind, group_size=33, capacity_factor=0.7)()
    of_first = lambda x: jnp.sum(jnp.sin(module(x, key=jax.random.key(0))[0].reshape(2, 33, D)[0]))
    gradient = jax.jit(jax.grad(of_first))(inputs()).reshape(2, 33, D)
    assert (gradient[1] == 0).all() and (jnp.abs(gradient[0]).max() > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_gradient_and_the_balance_reaches_the_router(kind):
    module, x = layer(kind, group_size=33, balance_weight=1.0)(), jnp.asarray(inputs())

    @jax.jit
    def gradients(module):
        output = lambda module: jnp.sum(jnp.sin(module(x, key=jax.random.key(0))[0]))
        balance = lambda module: module(x)[1]["loss"]["balance"].sum()
        return jax.grad(output)(module), jax.grad(balance)(module)

    of_output, of_balance = gradients(module)
    assert all(float(jnp.abs(g).max()) > 1e-4 for g in jax.tree.leaves(of_output))
    assert float(jnp.abs(of_balance.router.kernel[...]).max()) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_passes_a_key_in_training_only(kind):
    """Two keys give different results, without a key nothing is drawn, and a layer without a key argument gets none."""
    threshold = {"threshold": 5.0} if kind == "mixture_of_experts" else {"jitter": 0.9}
    steps = (("feed_forward", "residual"),)
    block = Block(steps=steps, children={"feed_forward": layer(kind, **threshold)}, dropout_rate=0.0, rngs=nnx.Rngs(0))
    run = lambda key: block(jnp.asarray(inputs()), {}, key=key)[0]
    draws = ["random_bits" in str(jax.make_jaxpr(run)(key)) for key in (None, jax.random.key(0))]
    assert draws == [False, True]
    assert (jax.jit(run)(jax.random.key(0)) != jax.jit(run)(jax.random.key(1))).any()
    dense = {"feed_forward": functools.partial(DenseFeedForward, width=D, hidden_width=F)}
    other = Block(steps=steps, children=dense, dropout_rate=0.0, rngs=nnx.Rngs(0))
    jax.eval_shape(lambda x, key: other(x, {}, key=key), jnp.asarray(inputs()), jax.random.key(0))


@pytest.mark.parametrize(("kind", "hidden_width"), [("mixture_of_experts", 1536), ("switch_released", 3072)])
def test_parameters_of_table_1(kind, hidden_width):
    """32 experts of 2 D F and a router of 32 D: Narang et al. 2021, their released settings."""
    make = layer(kind, width=768, num_experts=32, hidden_width=hidden_width)
    count = sum(math.prod(x.shape) for x in abstract(lambda rngs: make(rngs))[1].values())
    assert count == 32 * 2 * 768 * hidden_width + 32 * 768


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_in_bfloat16_out_and_a_float32_balance(kind):
    module = layer(kind)()
    y, aux = jax.eval_shape(lambda x: module(x, key=jax.random.key(0)), jnp.asarray(inputs(), jnp.bfloat16))
    assert y.dtype == jnp.bfloat16 and aux["loss"]["balance"].dtype == jnp.float32


def test_a_mixture_needs_two_experts():
    with pytest.raises(ValueError, match="axis E: expected at least 2 experts, got 1"):
        top_2_routing(jnp.zeros((1, 3, 1)), capacity=4)


def test_an_expert_with_losses_of_its_own_is_refused():
    inner = layer("switch_released")
    module = MixtureOfExperts(width=D, num_experts=E, expert=inner, rngs=nnx.Rngs(0))
    with pytest.raises(ConfigError, match="feed_forward.expert: experts do not pass on its loss, metrics"):
        module(jnp.asarray(inputs()))

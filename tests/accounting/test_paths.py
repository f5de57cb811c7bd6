"""Dependencies between positions against perturbed inputs, and path lengths against SciPy's shortest paths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.sparse.csgraph import shortest_path

from attention_research.accounting.paths import distance_through_states, layers_to_connect, longest_distance, reads
from attention_research.experiments.vaswani2017.sequence_layers import Sizes, sequence_layer

T, D = 7, 6


@pytest.mark.parametrize("kind", ["attention_core", "restricted_core", "lstm", "convolution", "dilated"])
def test_a_position_depends_on_the_inputs_that_change_it(kind):
    layer = sequence_layer(kind, Sizes(D, num_heads=2, neighbourhood=5, dilation=2))
    module, x = layer.make(nnx.Rngs(0)), jax.random.normal(jax.random.key(1), (T, D))
    apply = jax.jit(lambda x: layer.apply(module, x[None])[0])
    moved = np.stack([np.abs(apply(x.at[s].add(0.5)) - apply(x)).max(axis=-1) > 0 for s in range(T)], axis=1)
    np.testing.assert_array_equal(reads(apply, x), moved)
    assert moved.any() and moved.all() == (kind == "attention_core")


@pytest.mark.parametrize("seed", range(4))
def test_the_longest_distance_is_scipys(seed):
    edges = np.random.default_rng(seed).random((23, 23)) < 0.07
    steps = shortest_path(edges.T.astype(float), unweighted=True)  # SciPy's edges start at the first index
    sources, targets = range(9), range(5, 23)
    there = steps[np.ix_(sources, targets)]
    assert longest_distance(edges, sources, targets) == there[np.isfinite(there)].max()


def test_a_source_that_is_a_target_is_at_distance_0():
    assert longest_distance(np.zeros((2, 2), bool), [0], [0]) == 0


def test_layers_to_connect_equals_scipys_longest_path():
    one = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= 1
    away = shortest_path(one.astype(float), unweighted=True)
    assert layers_to_connect([one] * 99) == away.max()


def test_positions_that_never_connect_raise():
    with pytest.raises(ValueError, match="never meet"):
        layers_to_connect([np.eye(3, dtype=bool)] * 9)
    with pytest.raises(ValueError, match="never meet"):
        layers_to_connect([np.eye(3, k=1, dtype=bool) | np.eye(3, k=-1, dtype=bool) | np.eye(3, dtype=bool)])
    with pytest.raises(ValueError, match="no target"):
        longest_distance(np.zeros((3, 3), bool), [0], [1, 2])


def test_an_unread_state_gives_no_path():
    """A cell that forgets connects an input only to its own output."""
    remembering = lambda pair: jnp.tanh(pair[:1] + pair[1:])
    assert distance_through_states(remembering, jnp.ones((2, D)), T) == T
    assert distance_through_states(lambda pair: pair[:1] + 0 * pair[1:], jnp.ones((2, D)), T) == 1

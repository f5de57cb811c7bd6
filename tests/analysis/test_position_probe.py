"""The position probe on states with positions and without, and against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from attention_research.analysis.position_probe import Probe, errors, layer_states

T, D = 11, 8


@pytest.fixture(scope="module")
def states():
    """Three layers: positions as directions, directions with noise, and noise alone; [3 N T D] twice."""
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((T, D))
    line = np.zeros((T, D))
    line[:, 0] = np.arange(T)

    def drawn(count):
        noise = rng.standard_normal((3, count, T, D))
        return (
            noise * np.array([0.05, 0.5, 1.0])[:, None, None, None] + np.stack([codes, line, 0 * line])[:, None]
        ).astype(np.float32)

    return drawn(200), drawn(100)


@pytest.fixture(scope="module")
def found(states):
    return errors(*map(jnp.asarray, states), Probe(hidden_width=32, steps=800), jax.random.key(0))


@pytest.mark.slow
def test_the_probe_finds_positions_only_where_they_exist(found):
    assert found[0] < 0.1 and found[1] < 1.0
    assert T / 4 - 0.3 < found[2] < (T**2 - 1) / (3 * T) + 0.3


@pytest.mark.slow
def test_the_probe_is_as_accurate_as_scikit_learns(states, found):
    seen, held_out = states[0][1].reshape(-1, D), states[1][1].reshape(-1, D)
    place = lambda flat: np.tile(np.arange(T), len(flat) // T)
    reference = MLPClassifier((32,), max_iter=400, random_state=0).fit(seen, place(seen))
    theirs = np.abs(reference.predict(held_out) - place(held_out)).mean()
    assert abs(found[1] - theirs) < 0.15


@pytest.mark.slow
def test_states_are_embeddings_and_outputs_of_each_layer(small):
    structure, parameters = small(kind="transformer_decoder", dropout_rate=0.0)
    model = structure.merge(parameters[0], parameters[1])
    batch = {"target": jnp.asarray(np.random.default_rng(1).integers(4, 29, (2, 9)), jnp.int32)}
    tokens = np.concatenate([np.full((2, 1), 1), np.asarray(batch["target"])[:, :-1]], axis=1)

    @jax.jit
    def run(batch):
        found = layer_states(model, batch)
        embedded = model.decoder.positions(model.vocabulary.target(jnp.asarray(tokens)), jnp.arange(9)[None])
        values = model.vocabulary.log_likelihood(model.decoder.final_norm(found[-1]), batch["target"])
        return found, embedded, values["log_likelihood"], model.log_likelihood(batch)[0]["log_likelihood"]

    found, embedded, of_the_last, whole = run(batch)
    assert found.shape == (3, 2, 9, 12)
    np.testing.assert_allclose(found[0], embedded, atol=1e-6)
    np.testing.assert_allclose(of_the_last, whole, atol=1e-4)

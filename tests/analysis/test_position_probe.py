"""The position probe on states with positions and without, and against scikit-learn."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from attention_research.analysis import position_probe
from attention_research.analysis.position_probe import Probe, States, errors, guesses, layer_states, of_run
from attention_research.tokens import PAD

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
    every = [States(rows, np.ones(rows.shape[1:3], bool)) for rows in states]
    return errors(*every, Probe(hidden_width=32, steps=800), jax.random.key(0))


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


def test_states_of_padding_are_left_out():
    """They are not a number, and the rows of the two texts and of their batches have different lengths."""
    rng = np.random.default_rng(0)
    rows = {"train": (6, 4), "test": (3, 5, 5)}

    def batches(split, batch_size, examples):
        for length in rows[split]:
            target = np.ones((8, length), np.int32)
            target[: 8 // 2, length - 2 :] = PAD
            yield np.array([*range(7), -1]), {"target": target}

    def states(model, batch):
        drawn = rng.standard_normal((2, *batch["target"].shape, D)) + np.arange(batch["target"].shape[1])[:, None]
        return np.where(batch["target"][..., None] == PAD, np.nan, drawn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(position_probe, "layer_states", states)
        patch.setattr(jax, "jit", lambda function: function)
        patch.setattr(position_probe, "untrained", lambda trained: ())
        structure = SimpleNamespace(merge=lambda *arrays: None)
        run = SimpleNamespace(
            data=SimpleNamespace(evaluation_batches=batches), trainer=SimpleNamespace(structure=structure),
            model=lambda: (),
        )  # fmt: skip
        found = of_run(run, 0, steps=60)
    assert np.isfinite(found["errors"]).all() and max(found["errors"]) < found["blind"]


def test_guesses_are_those_at_the_tokens():
    """Two rows of 3 and 1 tokens out of 4: the tokens are at 0, 0, 1 and 2, and the best constant is 0 or 1."""
    found = guesses(np.arange(4) < np.array([[3], [1]]))
    assert found == {"blind": (1.5 + 1.5 + 1.0 + 1.0) / 4, "middle": 3 / 4}

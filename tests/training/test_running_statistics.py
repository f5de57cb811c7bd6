"""Running statistics replaced in training: by the step, over parts and devices, never with another name or shape."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.structure import abstract
from attention_research.parallel.execution import AXIS
from attention_research.tasks.classification import Classification
from attention_research.training.step import initial_state, make_train_step, replaced

ROWS, FEATURES = 6, 5


class Classes(nnx.Module):
    """Log softmax of a batch norm."""

    def __init__(self, rngs):
        self.norm = BatchNorm(FEATURES, rngs=rngs)

    def log_probabilities(self, batch, *, key=None):
        x, updates = self.norm(batch["x"], training=key is not None)
        return jax.nn.log_softmax(x), {UPDATES: nested(norm=updates)}


def trained(*, parts=1, axis_name=None):
    """(start, step) of `Classes`."""
    optimizer = optax.sgd(0.1)
    step = make_train_step(
        abstract(Classes)[0], Classification(), optimizer, optax.constant_schedule(0.1),
        accumulation_steps=parts, axis_name=axis_name,
    )  # fmt: skip
    return initial_state(Classes, optimizer), step


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, (ROWS, FEATURES)).astype(np.float32)
    return {"x": x, "label": rng.integers(0, FEATURES, ROWS).astype(np.int32)}


def moved(x, old_mean=0.0, old_variance=1.0):
    return 0.9 * old_mean + 0.1 * x.mean(0), 0.9 * old_variance + 0.1 * x.var(0, ddof=1)


def test_a_step_replaces_the_running_moments(batch):
    """Two steps on one batch. Evaluation then normalises by the resulting moments."""
    start, step = trained()
    state, step = jax.jit(start)(0), jax.jit(step)
    mean, variance = 0.0, 1.0
    for _ in range(2):
        state, metrics = step(state, batch)
        mean, variance = moved(batch["x"], mean, variance)
        np.testing.assert_allclose(state["statistics"]["norm.mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(state["statistics"]["norm.variance"], variance, rtol=1e-5)
    assert set(metrics) == {"loss", "correct", "tokens", "gradient_norm", "finite_gradients", "learning_rate"}


def test_parts_of_a_batch_give_their_mean(batch):
    start, step = trained(parts=2)
    state, _ = jax.jit(step)(jax.jit(start)(0), batch)
    each = [moved(batch["x"][part::2]) for part in range(2)]
    np.testing.assert_allclose(state["statistics"]["norm.mean"], np.mean([m for m, _ in each], axis=0), rtol=1e-5)
    np.testing.assert_allclose(state["statistics"]["norm.variance"], np.mean([v for _, v in each], axis=0), rtol=1e-5)


def test_mapped_devices_give_their_mean(batch):
    """Uses `vmap` with the axis name of pmap, which has the same collectives."""
    start, step = trained(axis_name=AXIS)
    state = jax.tree.map(lambda x: jnp.stack([x, x]), jax.jit(start)(0))
    halves = {name: x.reshape(2, ROWS // 2, *x.shape[1:]) for name, x in batch.items()}
    state, _ = jax.jit(jax.vmap(step, axis_name=AXIS))(state, halves)
    expected = np.mean([moved(x)[0] for x in halves["x"]], axis=0)
    np.testing.assert_allclose(state["statistics"]["norm.mean"], [expected] * 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        ({}, "missing \\['mean'\\], unexpected nothing"),
        ({"mean": np.zeros(3, np.float32), "other": np.zeros(3)}, "unexpected \\['other'\\]"),
        ({"mean": np.zeros(4, np.float32)}, "mean is float32\\[4\\], not float32\\[3\\]"),
    ],
    ids=["missing", "unexpected", "another_shape"],
)
def test_updates_of_another_name_or_shape_are_refused(updates, said):
    with pytest.raises(KeyError, match=said):
        replaced({"mean"}, {"mean": np.zeros(3, np.float32), "drawn": np.zeros(2)}, updates, 1)

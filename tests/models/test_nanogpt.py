"""nanoGPT's recipe: its parameters by arithmetic, its start by moments, and its first updates against PyTorch."""

import jax
import numpy as np
import pytest

from attention_research.config import load
from attention_research.training.trainer import Trainer

CONFIG, V = "language_modelling/nanogpt:cpu", 81


@pytest.fixture(scope="module")
def trainer():
    return Trainer(load(CONFIG))


def test_the_parameters_are_nanogpts(trainer):
    """A table of tokens, which is the output layer too, a table of positions, 12 D^2 and two gains a layer, a gain."""
    layer = 12 * 128**2 + 2 * 128
    assert trainer.parameter_count == V * 128 + 64 * 128 + 4 * layer + 128
    of_its_text = Trainer(load(CONFIG, [("vocabulary_size", "65")])).parameter_count
    assert of_its_text - 64 * 128 == 795_904  # its log counts no positions: "number of parameters: 0.80M"
    assert not [name for name in trainer.parameters if name.endswith("bias")]


def test_the_start_is_gpt2s(trainer):
    start = jax.eval_shape(trainer.step_and_start[1], jax.ShapeDtypeStruct((), np.int32))["parameters"]
    assert len(start) == 2 + 2 + 4 + 2 + 1
    found = jax.device_get(trainer.execution.start()["parameters"])
    for name, array in found.items():
        last = name.endswith(("self_attention.output.kernel", "feed_forward.output.kernel"))
        if name.endswith("scale"):
            np.testing.assert_array_equal(array, 1.0)
        else:
            deviation = 0.02 / 8**0.5 if last else 0.02
            np.testing.assert_allclose([array.mean() + deviation, array.std()], deviation, rtol=0.04, err_msg=name)


@pytest.mark.slow
def test_the_first_updates_are_pytorchs(trainer, torch):
    """Equal weights and batches: the losses of ten updates, of which the first is with a rate of 1 / 101."""
    from benchmarks._torch_nanogpt import Loop
    from benchmarks.nanogpt import Ours

    resolved, random = trainer.config.resolved, np.random.default_rng(0)
    text = random.choice(np.arange(4, V), p=random.dirichlet(np.ones(V - 4)), size=5000).astype(np.int32)
    ours = Ours(trainer)
    theirs = Loop(jax.device_get(ours.state["parameters"]), resolved["training"], heads=4)
    losses = []
    for _ in range(10):
        rows = text[random.integers(5000 - 64, size=12)[:, None] + np.arange(65)]
        batch = {"target": rows[:, 1:], "target_before": rows[:, 0]}
        losses.append((ours.step(batch), theirs.step(batch)))
    one, other = np.array(losses).T
    np.testing.assert_allclose(one[:3], other[:3], rtol=2e-6)
    np.testing.assert_allclose(one, other, rtol=2e-5)
    assert one[9] < one[0] - 0.1
    parameters = jax.device_get(ours.state["parameters"])
    for name, parameter in theirs.model.named_parameters():
        np.testing.assert_allclose(parameters[name.replace("/", ".")], parameter.detach(), atol=1e-4, err_msg=name)

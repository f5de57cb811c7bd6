"""Checkpoint averaging against a mean computed by hand, over checkpoints that Orbax reads without this package."""

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.evaluation import Trained
from attention_research.training.selection import averaged
from attention_research.training.trainer import Trainer
from attention_research.training.workdir import load_config, write_text
from tests.tiers import fast_are

PAIR = (("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"))
SMALL = (
    ("vocabulary_size", 100), ("model.width", 8), ("model.num_heads", 2), ("model.feed_forward.hidden_width", 8),
    ("training.steps", 7), ("training.checkpoint_every", 2), ("training.keep", 4), ("evaluation.average", 3),
)  # fmt: skip


def test_the_mean_of_parameters_and_the_newest_of_the_rest():
    rng = np.random.default_rng(0)
    states = {
        step: {
            "parameters": {"a": rng.standard_normal((3, 5)).astype(np.float32), "b": np.float32([step])},
            "statistics": {"mean": np.float32([10 * step])},
        }
        for step in (20, 30, 50)
    }
    got = averaged(states.__getitem__, (20, 30, 50))
    want = sum(state["parameters"]["a"].astype(np.float64) for state in states.values()) / 3
    np.testing.assert_allclose(got["parameters"]["a"], want, rtol=1e-6)
    assert got["parameters"]["a"].dtype == np.float32
    assert got["parameters"]["b"].tolist() == pytest.approx([100 / 3]) and got["statistics"]["mean"].tolist() == [500]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory, mock_data):
    """A run with checkpoints of random parameters at 2, 4, 6 and 7, and one at 5, which is not on the schedule."""

    config = load("configs/translation/transformer.py:smoke", (*PAIR, *SMALL))
    folder = tmp_path_factory.mktemp("averaging")
    write_text(folder / "config.json", config.to_json())
    abstract, rng = Trainer(config).execution.abstract, np.random.default_rng(0)
    checkpoints = Checkpoints(folder)
    for step in (2, 4, 5, 6, 7):
        checkpoints.save(step, jax.tree.map(lambda x: rng.standard_normal(x.shape).astype(x.dtype), abstract))
    checkpoints.close()
    yield folder


def by_hand(workdir, *steps):
    reader = ocp.PyTreeCheckpointer()
    each = [reader.restore((workdir / "checkpoints" / str(step)).absolute())["parameters"] for step in steps]
    return {name: np.mean([one[name] for one in each], axis=0, dtype=np.float64) for name in each[0]}


@pytest.mark.parametrize(
    ("average", "steps"),
    fast_are(
        ["the-config's"], {"the-config's": (None, (4, 6, 7)), "given": (2, (6, 7)), "none": (1, (7,))}, several=True
    ),
)
def test_the_newest_on_the_schedule_are_averaged(workdir, average, steps):
    trained = Trained(workdir, average=average)
    assert trained.averaged == list(steps) and trained.step == 7
    got, want = trained.state["parameters"], by_hand(workdir, *steps)
    assert got.keys() == want.keys() and len(want) > 10
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.slow
def test_evaluate_compiles_the_program_of_the_validations_in_training(workdir):
    """The placement of arrays is part of a program, and therefore of its key in the compilation cache."""
    trained, step = Trained(workdir, average=1), Trainer(load_config(workdir))._evaluation_step
    begun = Trainer(load_config(workdir)).execution.abstract
    _, batch = next(iter(trained.data.evaluation_batches("validation", 3)))
    lowered = lambda model: step.lower(model, batch, {}).as_text()
    in_training = lowered((begun["parameters"], begun["statistics"]))
    assert lowered(trained.placed_model()) == in_training != lowered(trained.model())


@pytest.mark.parametrize("command", [["evaluate"], ["generate", "--input=un"]], ids=["evaluate", "generate"])
def test_fewer_checkpoints_than_asked_for_is_one_line(workdir, command, capsys):
    assert main([*command, f"--workdir={workdir}", "--average=5"]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == (
        "error: --average=5: the run has 4 (2, 4, 6, 7) of the checkpoints that it writes every 2 steps; "
        "give --average=4"
    )


def test_more_than_training_keeps_is_refused(root):
    config = load(f"{root}/configs/translation/transformer.py:smoke")
    with pytest.raises(ConfigError, match=r"config.evaluation.average: 3 checkpoints .* training.keep keeps 2"):
        config.override([("evaluation.average", 3)])


def test_the_papers_systems_average_5_and_20(root):
    for variant, count in (("vaswani_base", 5), ("vaswani_big", 20)):
        resolved = load(f"{root}/configs/translation/transformer.py:{variant}").resolved
        assert resolved["evaluation"]["average"] == resolved["training"]["keep"] == count

"""Which checkpoint is read, according to a log written here, over checkpoints that Orbax reads without this package."""

import json
import re
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.evaluation import Trained, with_decoding
from attention_research.training.selection import Selection
from attention_research.training.trainer import Trainer
from attention_research.training.workdir import write_text
from tests.tiers import fast_are

SMALL = (
    ("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"),
    ("vocabulary_size", 100), ("model.width", 8), ("model.num_heads", 2), ("model.feed_forward.hidden_width", 8),
    ("training.steps", 7), ("training.checkpoint_every", 2), ("training.eval_every", 3), ("training.keep", 4),
    ("training.replicas", 2), ("evaluation.average", 3),
)  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory, mock_data):
    """A run of two seeds with checkpoints of random parameters at 4, 5, 6 and 7, without validation."""

    config = load("configs/translation/transformer.py:smoke", SMALL)
    folder = tmp_path_factory.mktemp("selection")
    write_text(folder / "config.json", config.to_json())
    abstract, rng = Trainer(config).execution.abstract, np.random.default_rng(0)
    with Checkpoints(folder) as checkpoints:
        for step in (4, 5, 6, 7):
            checkpoints.save(step, jax.tree.map(lambda x: rng.standard_normal(x.shape).astype(x.dtype), abstract))
    yield folder


@pytest.fixture
def workdir(original, tmp_path):
    """A copy with validation losses. Checkpoint 5 has the lowest mean over the seeds, 6 the lowest loss of one seed."""
    folder = tmp_path / "run"
    shutil.copytree(original, folder)
    logged(folder, {3: (1.0, 1.0), 5: (2.0, 2.0), 6: (1.5, 3.0), 7: (float("nan"), 0.1)})
    return folder


def logged(folder, losses):
    lines = [
        {"step": step, "split": "validation", "seed": seed, "loss": loss}
        for step, pair in losses.items()
        for seed, loss in enumerate(pair)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


EXPECTED = {
    "last": ({"checkpoint": "last"}, "last", [7]),
    "best": ({"checkpoint": "best"}, "best", [5]),
    "a-step": ({"checkpoint": 6}, "step", [6]),
    "the-config's-mean": ({}, "mean", [4, 6, 7]),
    "no-mean": ({"average": 1}, "last", [7]),
}


@pytest.mark.parametrize("case", fast_are(["best", "the-config's-mean"], EXPECTED.keys()))
def test_the_parameters_are_those_of_the_checkpoint_asked_for(workdir, case):
    arguments, name, steps = EXPECTED[case]
    trained = Trained(workdir, **arguments)
    assert trained.selection == Selection(name, steps) and trained.averaged == steps and trained.step == steps[-1]
    reader = ocp.PyTreeCheckpointer()
    each = [reader.restore((workdir / "checkpoints" / str(step)).absolute())["parameters"] for step in steps]
    for leaf, x in trained.state["parameters"].items():
        want = np.mean([one[leaf] for one in each], axis=0, dtype=np.float64)
        np.testing.assert_allclose(x, want, rtol=1e-6, atol=1e-7, err_msg=leaf)


CHOSEN = {
    "nothing said": ({}, "best", 5),
    "last": ({"checkpoint": "last"}, "last", 7),
    "no mean": ({"average": 1}, "last", 7),
}


@pytest.mark.slow
def test_a_run_may_be_read_at_its_best_checkpoint(workdir):
    best = [("training.chosen_checkpoint", "best"), ("evaluation.average", 1)]
    write_text(workdir / "config.json", load("configs/translation/transformer.py:smoke", [*SMALL, *best]).to_json())
    for arguments, name, step in CHOSEN.values():
        assert Trained(workdir, **arguments).selection == Selection(name, [step])


REFUSED = {
    "a step": ({"training.chosen_checkpoint": "5"}, "expected last or best; got '5'"),
    "none is kept": ({"training.chosen_checkpoint": "best", "training.keep_best": 0}, "no best checkpoint is kept"),
    "a mean": ({"training.chosen_checkpoint": "best", "evaluation.average": 2}, "evaluation.average averages several"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_choice_is_refused(case):
    settings, message = REFUSED[case]
    with pytest.raises(ConfigError, match=f"config.training.chosen_checkpoint: .*{message}"):
        load("configs/translation/transformer.py:smoke", settings.items())


def harm(workdir, step):
    max((workdir / "checkpoints" / str(step)).rglob("*"), key=lambda path: path.stat().st_size).write_bytes(b"")


def test_a_damaged_best_is_skipped_for_the_next_and_says_so(workdir):
    said = []
    harm(workdir, 5)
    assert Trained(workdir, said.append, checkpoint="best").step == 6
    assert len(said) == 2 and "checkpoint 5 in " in said[0] and "damaged" in said[0]
    assert said[1].startswith("step 3 has the lowest validation loss, but its checkpoint is missing; using 6")


def without_losses(workdir):
    (workdir / "metrics.jsonl").unlink()


MISTAKES = {
    "no-loss-yet": (without_losses, "best", 2,
        "has no validation loss yet; training logs one every 3 steps .* rerun train there, or give --checkpoint=last"),
    "none-validated": (lambda workdir: logged(workdir, {3: (1.0, 1.0)}), "best", 2,
        r"no intact checkpoint in .* \(4, 5, 6, 7\) has .* \(step 3 has the lowest\); .*keep_best=1"),
    "no-such-step": (lambda workdir: None, "3", 2,
        "--checkpoint=3: .* has no checkpoint of that step; there are 4, 5, 6, 7"),
    "a-damaged-step": (lambda workdir: harm(workdir, 6), "6", 1,
        "checkpoint 6 in .* is damaged .* give another --checkpoint"),
    "none-at-all": (lambda workdir: shutil.rmtree(workdir / "checkpoints"), "best", 1,
        "no finished checkpoint; run train there first"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_an_unreadable_checkpoint_is_one_line(workdir, case, capsys):
    change, wanted, status, message = MISTAKES[case]
    change(workdir)
    assert main(["generate", f"--workdir={workdir}", "--input=un", f"--checkpoint={wanted}"]) == status
    out, err = capsys.readouterr()
    assert out == "" and re.search(message, err.strip().splitlines()[-1]) and "Traceback" not in err


def test_a_misspelled_checkpoint_is_refused(workdir):
    """It is not the last one."""
    with pytest.raises(ConfigError, match="^--checkpoint=bset: expected last, best or a step$"):
        Trained(workdir, checkpoint="bset")


def test_a_mean_of_one_named_checkpoint_is_refused(workdir, capsys):
    assert main(["evaluate", f"--workdir={workdir}", "--checkpoint=best", "--average=2"]) == 2
    assert "--average=2 needs several checkpoints, but --checkpoint=best selects one" in capsys.readouterr().err
    assert Trained(workdir, checkpoint="best", average=1).step == 5


def test_an_exported_file_says_how_its_checkpoint_was_chosen(workdir, tmp_path, capsys):
    path = tmp_path / "a.safetensors"
    assert main(["export", f"--workdir={workdir}", str(path), "--checkpoint=best"]) == 0
    assert "checkpoint 5 (lowest validation loss), seed 0" in capsys.readouterr().out
    with safetensors.safe_open(path, framework="numpy") as opened:
        said = opened.metadata()
        array = opened.get_tensor("vocabulary.table")
    assert (said["checkpoint"], said["step"], said["averaged"]) == ("best", "5", "5")
    assert (array == np.asarray(Trained(workdir, checkpoint=5).model()[0]["vocabulary.table"])).all()


def test_generate_says_which_checkpoint_it_read(workdir, capsys, monkeypatch):
    monkeypatch.setattr(Trained, "decoded", lambda self, encoded: encoded)
    for option, line in (("--checkpoint=6", "checkpoint 6"), ("--average=2", "mean of checkpoints 6, 7")):
        assert main(["generate", f"--workdir={workdir}", "--input=un", option]) == 0
        out, err = capsys.readouterr()
        assert out.count("\n") == 1 and line in err.splitlines()


@pytest.mark.parametrize(
    ("overrides", "want"),
    [
        ([("decoding.beam_size", "3")], {"kind": "beam", "beam_size": 3, "alpha": 0.9}),
        ([("decoding.kind", "beam")], {"kind": "beam", "beam_size": 5, "alpha": 0.9}),
        ([("decoding.kind", "greedy")], {"kind": "greedy"}),
        ([("decoding", "sampling"), ("decoding.top_k", "4")], {"kind": "sampling", "top_k": 4}),
        ([("decoding", "{'kind': 'sampling', 'top_k': 4}")], {"kind": "sampling", "top_k": 4}),
    ],
)
def test_another_kind_of_decoding_begins_with_its_own_defaults(overrides, want):
    config = load("translation/transformer:smoke", [("decoding", {"kind": "beam", "beam_size": 5, "alpha": 0.9})])
    expected = load("translation/transformer:smoke", [("decoding", want)])
    assert with_decoding(config, overrides).resolved == expected.resolved

"""`training.initial` on tiny files: what a run takes from another run (bitwise), what it refuses, what it records."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

from attention_research.config import Config, ConfigError, resolve
from attention_research.training import initial
from attention_research.training.clock import Clock
from attention_research.training.evaluation import Trained
from attention_research.training.interruption import Interrupted
from attention_research.training.metrics_log import read_metrics
from attention_research.training.run import train
from attention_research.training.trainer import Trainer, mean_losses
from attention_research.training.workdir import write_json
from tests.parallel.programs import environment
from tests.tiers import fast_are

SEEDS = (3, 4)


def corpus(folder, letters):
    """Lines of words of these letters, and the same words reversed: split -> two paths."""
    rng, paths = np.random.default_rng([ord(letter) for letter in letters]), {}
    folder.mkdir()
    for split, size in {"train": 40, "validation": 7, "test": 5}.items():
        lines = [[*rng.choice(list(letters), rng.integers(2, 6))] for _ in range(size)]
        paths[split] = [str(folder / f"{split}.{side}") for side in ("source", "target")]
        for path, order in zip(paths[split], (1, -1), strict=True):
            with open(path, "w") as file:
                file.writelines(f"{' '.join(line[::order])}\n" for line in lines)
    return paths


def config(data, steps, **training):
    """A Transformer of width 8 over at most 7 tokens."""
    every = {"batch_size": 4, "log_every": 1, "checkpoint_every": 2, "eval_every": 2, "eval_batches": 1}
    return resolve({
        "max_length": 7, "vocabulary_size": 13,
        "data": {"kind": "files", "tokenizer": "words", "batching": {"boundaries": (7,)}, **data},
        "model": {"width": 8, "num_heads": 2, "num_layers": 1, "dropout_rate": 0.0,
                  "feed_forward": {"hidden_width": 11}},
        "training": {"steps": steps, "learning_rate": 0.05, "schedule": "constant", "seed": SEEDS[0], **every,
                     **training},
    })  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory, programs_once):
    """A folder with two texts: `first` with six letters, and `second` with five of them and one new letter."""
    folder = tmp_path_factory.mktemp("initial")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_RESEARCH_DATA", str(folder / "home"))
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def texts(place):
    return corpus(place / "first", "abcdef"), corpus(place / "second", "bcdefg")


@pytest.fixture(scope="module")
def trained(place, texts):
    """Runs of two seeds on the first text, with four steps each."""
    for seed in SEEDS:
        train(config(texts[0], 4, seed=seed), place / f"seed-{seed}")
    return place / f"seed-{SEEDS[0]}"


@pytest.fixture(scope="module")
def tuned(texts, trained):
    """tuned(initial, ...): the config of four steps on the second text, with the vocabulary of the first."""

    def made(source=trained, **training):
        data = {**texts[1], "tokenizer": {"kind": "from_run", "run": str(trained)}}
        return config(data, 4, initial=str(source), optimizer="sgd", **training)

    return made


@pytest.fixture(scope="module")
def whole(place, tuned):
    """An uninterrupted run that starts from the trained one."""
    train(tuned(), place / "whole")
    return place / "whole"


def arrays(tree):
    return {name: np.asarray(x) for name, x in tree.items()}


def assert_same(ours, theirs):
    ours, theirs = arrays(ours), arrays(theirs)
    assert ours.keys() == theirs.keys() and ours
    assert all((ours[name] == theirs[name]).all() and ours[name].dtype == theirs[name].dtype for name in ours)


def begun(config):
    return initial.start(Trainer(config), lambda line: None)


@pytest.mark.parametrize("wanted", fast_are([], ["last", "2"]))
def test_parameters_come_from_the_other_run_and_the_rest_is_new(trained, tuned, wanted):
    """The trained run has the same seed, so its fresh parameters would differ from the trained ones."""
    settings = tuned(initial_checkpoint=wanted)
    state, _ = begun(settings)
    fresh = Trainer(settings).execution.start()
    theirs = Trained(trained, checkpoint=2 if wanted == "2" else "last").state
    assert_same(state["parameters"], theirs["parameters"])
    assert int(state["step"]) == 0 and int(state["seed"]) == SEEDS[0]
    same = jax.tree.map(lambda a, b: bool((a == b).all()), state["optimizer"], fresh["optimizer"])
    assert all(jax.tree.leaves(same))
    assert any(
        (np.asarray(state["parameters"][name]) != np.asarray(x)).any() for name, x in fresh["parameters"].items()
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [("learned", "random_frozen"), pytest.param("random_frozen", "learned", marks=pytest.mark.slow)],
)
def test_a_part_comes_from_the_other_run_and_the_rest_is_random(place, before, after):
    """Between models with different pooling, where one trains the table that the other keeps frozen."""

    def made(embedding, pooling, **training):
        settings = {"batch_size": 4, "learning_rate": 0.1, "schedule": "constant", **training}
        return resolve({
            "max_length": 20, "vocabulary_size": 16, "task": "classification", "evaluation": "classification",
            "data": {"kind": "listops", "min_length": 3, "train_examples": 20, "held_out": 5},
            "model": {"kind": "text_classifier", "width": 8, "num_classes": 10, "embedding": embedding,
                      "pooling": pooling},
            "training": {"steps": 1, **settings},
        })  # fmt: skip

    run = place / f"{before}-embedding"
    train(made(before, "mean"), run)
    settings = made(after, "query", seed=7, initial=str(run), initial_parts=("embedding",))
    initial.check(settings, place / "begun", lambda line: None)
    state, (taken,) = begun(settings)
    fresh = Trainer(settings).execution.start()
    ours, drawn, theirs = ({**one["parameters"], **one["statistics"]} for one in (state, fresh, Trained(run).state))
    np.testing.assert_array_equal(ours["embedding.table"], theirs["embedding.table"])
    assert taken["parts"] == ["embedding"] and ("embedding.table" in state["statistics"]) == (after != "learned")
    rest = {name: x for name, x in ours.items() if name != "embedding.table"}
    assert any(name.startswith("pooling.") for name in rest)
    assert_same(rest, {name: drawn[name] for name in rest})


@pytest.mark.slow
def test_the_best_checkpoint_is_that_of_the_lowest_validation_loss(place, trained, tuned):
    copied = place / "best"
    shutil.copytree(trained, copied)
    lines = [line for line in read_metrics(copied) if line["split"] == "train"]
    lines += [{"step": step, "split": "validation", "loss": loss} for step, loss in ((2, 1.0), (4, 2.0))]
    (copied / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    state, (taken,) = begun(tuned(copied, initial_checkpoint="best"))
    assert (taken["checkpoint"], taken["step"]) == ("best", 2)
    assert_same(state["parameters"], Trained(copied, checkpoint=2).state["parameters"])


@pytest.mark.slow
def test_the_first_loss_is_the_trained_models(trained, tuned, whole):
    """The batch uses the trained run's token ids. The letter that its vocabulary lacks becomes the unknown token."""
    other = Trained(trained)
    data = Trainer(tuned()).data.prepare()
    batch = data.batch_at(SEEDS[0], 0, 4)
    assert (batch["source"] == 3).any()
    step = Trainer(tuned()).evaluation_step()
    loss = mean_losses(step, other.model(), iter([(np.arange(4), batch)]))["loss"]
    first = read_metrics(whole)[0]
    assert first["step"] == 1 and first["loss"] == pytest.approx(loss, rel=1e-6)
    assert (
        data.tokenizer.encode(["a g"])
        == other.data.tokenizer.encode(["a g"])
        == [[*data.tokenizer.encode(["a"])[0][:1], 3, 2]]
    )


@pytest.mark.slow
def test_the_source_is_recorded_in_the_environment(trained, whole):
    (taken,) = json.loads((whole / "environment.json").read_text())["initial"]
    assert taken["run"] == str(trained) and (taken["checkpoint"], taken["step"]) == ("last", 4)
    assert taken["config"] == Config.from_json((trained / "config.json").read_text()).hash
    assert len(taken["fingerprint"]) == 12


@pytest.mark.slow
def test_an_interrupted_run_continues_without_the_other_run(place, trained, tuned, whole, monkeypatch):
    """The other run's checkpoints are removed after the third step. The continued run equals the uninterrupted one."""
    count, fetch = iter(range(1, 100)), Clock.next

    def fetching(self, *arguments):
        if next(count) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return fetch(self, *arguments)

    monkeypatch.setattr(Clock, "next", fetching)
    with pytest.raises(Interrupted):
        train(tuned(), place / "stopped")
    away = (trained / "checkpoints").rename(trained / "away")
    try:
        train(tuned(), place / "stopped")
    finally:
        away.rename(trained / "checkpoints")
    assert_same(*(Trained(folder).state["parameters"] for folder in (place / "stopped", whole)))
    ours, theirs = (json.loads((folder / "environment.json").read_text()) for folder in (place / "stopped", whole))
    assert ours["initial"] == theirs["initial"]


PATHS = {"each-its-seed": "seed-{seed}", "all-the-same": f"seed-{SEEDS[1]}"}


@pytest.mark.parametrize("path", fast_are((), PATHS))
def test_replicas_start_from_the_run_of_their_seed_or_all_from_one(place, tuned, path):
    state, taken = begun(tuned(path, replicas=2))
    runs = [place / path.replace("{seed}", str(seed)) for seed in SEEDS]
    for replica, folder in enumerate(runs):
        mine = {name: x[replica] for name, x in state["parameters"].items()}
        assert_same(mine, Trained(folder).state["parameters"])
    assert state["seed"].tolist() == list(SEEDS) and state["step"].tolist() == [0, 0]
    assert [one["run"] for one in taken] == list(dict.fromkeys(folder.name for folder in runs))


@pytest.mark.slow
def test_mismatches_are_reported_before_anything_is_written(place, trained, texts, tuned):
    """The error is raised before anything is written."""
    own = config(texts[1], 4, initial=str(trained))
    wide = tuned().override([("model.width", 10)])
    deep = tuned().override([("model.num_layers", 2)])
    gated = tuned().override([("model.feed_forward.kind", "gated")])
    shape = r"config\.training\.initial: checkpoint 4 in \S+ does not match this model: different: parameters/\S+ is \("
    said = {
        shape + r".* wanted \(": wide,
        shape + r"1, .* wanted \(2, ": deep,
        r"config\.training\.initial: checkpoint 4 .*missing: parameters/\S*gate": gated,
        r"config\.data: its vocabulary is \w+, that of \S+ is \w+; set data\.tokenizer\.kind=from_run": own,
        r"config\.training\.initial_parts: the model has no part 'encode'; it has decoder, encoder, vocabulary$": tuned(
            initial_parts=("encode",)
        ),
        r"config\.training\.initial=nowhere: no run there": tuned("nowhere"),
        r"config\.training\.initial=\S+: .* no checkpoint of that step; there are 2, 4": tuned(initial_checkpoint="3"),
    }
    for line, settings in said.items():
        with pytest.raises(ConfigError, match=f"^{line}"):
            train(settings, place / "refused")
        assert not (place / "refused").exists()
    with pytest.raises(ConfigError, match=r"initial_checkpoint: expected last, best or a step; got 'newest'"):
        tuned(initial_checkpoint="newest")


def test_a_run_that_cannot_be_read_is_not_called_missing(place, tuned):
    damaged = place / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text("{")
    line = r"^config\.training\.initial=\S*damaged: \S*damaged/config\.json: not a saved config"
    with pytest.raises(ConfigError, match=line):
        train(tuned("damaged"), place / "refused")


def test_a_run_of_replicas_cannot_be_the_initial_run(place, trained, texts, tuned):
    several = place / "several"
    several.mkdir()
    (several / "config.json").write_text(config(texts[0], 4, replicas=2).to_json())
    with pytest.raises(ConfigError, match="trained 2 replicas; give a run of one seed"):
        train(tuned(several), place / "refused")


def test_the_identity_depends_on_it_only_if_it_is_set(texts):
    fresh = config(texts[0], 4)
    before = copy.deepcopy(fresh.resolved)
    for name in ("initial", "initial_checkpoint", "initial_parts"):
        del before["training"][name]
    assert fresh.identity == Config(given={}, resolved=before).identity
    others = [{}, {"initial_checkpoint": "best"}, {"initial_parts": ("encoder",)}]
    assert len({one.identity for one in [fresh, *(config(texts[0], 4, initial="x", **other) for other in others)]}) == 4


ON_FOUR_DEVICES = """
import sys
from attention_research.config import Config
from attention_research.training import initial
from attention_research.training.evaluation import Trained
from attention_research.training.trainer import Trainer
import jax, numpy as np

jax.config.update("jax_disable_most_optimizations", True)
config = Config.from_json(open(sys.argv[1]).read())
theirs = Trained(__import__("pathlib").Path(config.resolved["training"]["initial"])).state["parameters"]
meshes = {"fsdp": [("parallel.mesh.fsdp", 2)], "pmap": [("parallel.strategy", "pmap")]}
for name, overrides in meshes.items():
    trainer = Trainer(config.override(overrides))
    state, _ = initial.start(trainer, lambda line: None)
    plain = trainer.execution.plain(state)["parameters"]
    assert plain.keys() == theirs.keys()
    assert all((np.asarray(plain[key]) == np.asarray(x)).all() for key, x in theirs.items()), name
    if name == "fsdp":
        assert any(x.addressable_shards[0].data.size < x.size for x in state["parameters"].values())
    batch = trainer.data.prepare().batch_at(3, 0, 4)
    _, metrics = trainer.execution.step(state, trainer.execution.place(batch))
    print(name, float(np.asarray(metrics["loss"]).reshape(-1)[0]))
"""


@pytest.mark.slow
def test_on_several_devices_it_starts_the_same(place, tuned, whole):
    (place / "given.json").write_text(tuned().to_json())
    done = subprocess.run(
        [sys.executable, "-c", ON_FOUR_DEVICES, str(place / "given.json")],
        capture_output=True,
        text=True,
        env=environment(4),
    )
    assert done.returncode == 0, done.stderr
    losses = dict(line.split() for line in done.stdout.splitlines())
    first = read_metrics(whole)[0]["loss"]
    assert losses.keys() == {"fsdp", "pmap"}
    assert [float(loss) for loss in losses.values()] == pytest.approx([first] * 2, rel=1e-5)


def test_a_part_may_be_a_single_parameter():
    arrays = {"parameters": {"class_token": 1, "encoder.a": 2, "encoders.b": 3}, "statistics": {"encoder.c": 4}}
    found = initial.asked(arrays, ("class_token", "encoder"), ())
    assert found == {"parameters": {"class_token": 1, "encoder.a": 2}, "statistics": {"encoder.c": 4}}


def test_a_continued_run_keeps_where_it_was_imported_from(tmp_path):
    write_json(tmp_path / "environment.json", {"imported": ["a"], "initial": ["b"], "git_revision": "c"})
    assert initial.kept(tmp_path) == {"imported": ["a"], "initial": ["b"]}

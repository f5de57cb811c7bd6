"""Replicas compared with their single runs: seeds, scalar settings, losses, parameters, checkpoints, written files."""

import copy
import itertools
import json
import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.layers.dropout import dropout
from attention_research.parallel.replica_settings import Varied, scope, value
from attention_research.registry import FAMILIES, lookup
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.clock import Clock
from attention_research.training.evaluation import evaluate
from attention_research.training.interruption import Interrupted
from attention_research.training.metrics_log import read_metrics
from attention_research.training.replicas import member_configs
from attention_research.training.run import train
from attention_research.training.settings import Training
from attention_research.training.split_replicas import split
from attention_research.training.workdir import load_config, write_text
from tests.tiers import slow_are

#: Adam's epsilon is large compared with rounding errors. A key's bias has a zero gradient up to rounding, and a small
#: epsilon would let Adam move it by the learning rate.
SMALL = (
    ("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"),
    ("max_length", 31), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 1),
    ("model.feed_forward.hidden_width", 8), ("training.batch_size", 4), ("training.log_every", 1),
    ("training.schedule.warmup_steps", 3), ("training.checkpoint_every", 2), ("training.eval_every", 2),
    ("training.eval_batches", 1), ("training.keep_best", 0), ("training.optimizer.epsilon", 1e-4),
    ("evaluation.average", 1), ("evaluation.examples", 4),
    ("decoding", {"kind": "greedy", "extra_length": 1}), ("training.replicas", 3), ("training.seed", 5),
)  # fmt: skip
LISTS = (
    "training.learning_rate=0.5,1.0,1.0", "model.dropout_rate=0.1,0.0,0.3", "task.label_smoothing=0.0,0.1,0.2",
)  # fmt: skip
CASES = {"seeds": (), "settings": LISTS}
#: Changes to the configs that are really trained: two seeds are enough.
TRAINED = {"seeds": (("training.replicas", 2),), "settings": ()}


def config(case="seeds", *overrides):
    """Three replicas for four steps: `vaswani_base` reduced to a test's size."""
    given = (*SMALL, ("training.steps", 4), ("training.varied", CASES[case]), *overrides)
    return load("configs/translation/transformer.py:vaswani_base", given)


pytestmark = pytest.mark.usefixtures("mock_data", "programs_once")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs(case) -> (folder of the joint run, folders of its members' single runs, folders into which it was split)."""
    made = {}

    def made_once(case):
        if case not in made:
            folder, together = tmp_path_factory.mktemp(case), config(case, *TRAINED[case])
            members = member_configs(together)
            alone, singles = ([folder / f"{kind}-{r}" for r in range(len(members))] for kind in ("alone", "singles"))
            train(together, folder / "joint")
            for member, own in zip(members, alone, strict=True):
                train(member, own)
            split(folder / "joint", together, singles)
            made[case] = folder / "joint", alone, singles
        return made[case]

    return made_once


def lines(folder):
    """The logged lines without the speeds."""
    left_out = {"tokens_per_second", "steps_per_second", "data_wait"}
    return [{k: v for k, v in line.items() if k not in left_out} for line in read_metrics(folder)]


def assert_same_lines(ours, theirs):
    assert len(ours) == len(theirs) > 0
    for got, want in zip(ours, theirs, strict=True):
        assert got.keys() == want.keys() and got["split"] == want["split"]
        for name in got.keys() - {"split"}:
            assert got[name] == pytest.approx(want[name], rel=1e-5), (got["step"], got["split"], name)


def state_of(folder, step):
    with Checkpoints(folder) as checkpoints:
        tree = checkpoints.writer.orbax.metadata(folder / "checkpoints" / str(step)).item_metadata.tree
        return tree, ocp.PyTreeCheckpointer().restore(folder / "checkpoints" / str(step))


def assert_close_states(folder, other, step):
    ours, theirs = state_of(folder, step)[1], state_of(other, step)[1]
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        # The gradient of a key's bias is only rounding error. It depends on the compiler, and Adam amplifies it.
        atol = 3e-5 if "attention.key.bias" in str(path) else 1e-5
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=atol, err_msg=str(path))


MARKED = slow_are(["settings"], [*CASES])


@pytest.mark.parametrize("case", MARKED)
def test_every_replica_is_its_single_run(runs, case):
    """Losses of every step with dropout, validation losses, rates and gradient norms agree to 1e-5.

    So does the last state after `split`. Replicas differ from each other by far more.
    """
    _, alone, singles = runs(case)
    for ours, theirs in zip(singles, alone, strict=True):
        assert_same_lines(lines(ours), lines(theirs))
        assert_close_states(ours, theirs, 4)
    last = [lines(folder)[-1]["loss"] for folder in singles]
    assert min(abs(one - other) for one, other in itertools.combinations(last, 2)) > 1e-3


SEEDS = {"seeds": (5, 6), "settings": (5, 5, 5)}


@pytest.mark.parametrize("case", MARKED)
def test_lines_of_joint_runs_name_the_replica(runs, case):
    """Only lines of joint runs name the replica, by its index, since seeds may be equal."""
    (joint, alone, singles), seeds = runs(case), SEEDS[case]
    first = [(line["step"], line["seed"], line["replica"]) for line in lines(joint) if line["split"] == "train"]
    assert first[: len(seeds) + 1] == [*((1, seed, i) for i, seed in enumerate(seeds)), (2, seeds[0], 0)]
    assert all("replica" not in line for folder in (*alone, *singles) for line in lines(folder))
    validated = [line["replica"] for line in lines(joint) if line["split"] == "validation"]
    assert validated == 2 * list(range(len(seeds)))


@pytest.mark.slow
def test_a_dealt_run_is_written_as_a_single_one(runs):
    """Compares steps of checkpoints, names, shapes, dtypes and shardings of arrays, the config and the environment."""
    joint, alone, singles = runs("settings")
    for replica, (ours, theirs) in enumerate(zip(singles, alone, strict=True)):
        assert load_config(ours) == load_config(theirs) == member_configs(config("settings"))[replica]
        with Checkpoints(ours) as mine, Checkpoints(theirs) as single:
            assert mine.steps() == single.steps() == [2, 4] and all(map(mine.whole, mine.steps()))
        described = [
            jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding, leaf.storage), state_of(folder, 4)[0])
            for folder in (ours, theirs)
        ]
        assert described[0] == described[1]
        assert sorted(p.name for p in (ours / "checkpoints/4").iterdir()) == sorted(
            p.name for p in (theirs / "checkpoints/4").iterdir()
        )
        environment = json.loads((ours / "environment.json").read_text())
        assert environment == {
            **json.loads((joint / "environment.json").read_text()), "replica": replica, "replicas": 3,
        }  # fmt: skip


@pytest.mark.slow
def test_a_dealt_run_evaluates_to_the_joint_run_s_figures(runs):
    """Label smoothing is part of the loss, with each replica's own value."""
    joint, _, singles = runs("settings")
    document = evaluate(joint)
    assert "replica" not in document and [one["replica"] for one in document["replicas"]] == [0, 1, 2]
    assert [one["seed"] for one in document["replicas"]] == [5, 5, 5]
    for folder, wanted in zip(singles, document["replicas"], strict=True):
        got = evaluate(folder)
        for name in wanted.keys() - {"replica"}:
            want = pytest.approx(wanted[name], rel=1e-5) if isinstance(wanted[name], float) else wanted[name]
            assert got[name] == want, name
    assert document["replicas"][0]["loss"] == pytest.approx(document["replicas"][0]["negative_log_likelihood"])
    assert document["replicas"][2]["loss"] > 1.001 * document["replicas"][2]["negative_log_likelihood"]


@pytest.mark.slow
def test_a_dealt_run_keeps_the_checkpoints_of_a_single_one(runs, tmp_path):
    """Of two checkpoints the last, and the best by its own loss."""
    together = config("settings", ("training.keep", 1), ("training.keep_best", 1))
    shutil.copytree(runs("settings")[0], tmp_path / "joint")
    write_text(tmp_path / "joint" / "config.json", together.to_json())
    losses = {(2, 0): 1.0, (4, 0): 2.0, (2, 1): 3.0, (4, 1): 2.0, (2, 2): 2.0, (4, 2): 1.0}
    logged = [
        {"step": step, "split": "validation", "replica": replica, "loss": loss}
        for (step, replica), loss in losses.items()
    ]
    write_text(tmp_path / "joint" / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in logged))
    folders = [tmp_path / str(replica) for replica in range(3)]
    split(tmp_path / "joint", together, folders)
    assert [Checkpoints(folder).steps() for folder in folders] == [[2, 4], [4], [4]]


@pytest.mark.slow
def test_a_dealt_run_goes_on_as_the_single_run(runs, tmp_path):
    _, alone, singles = runs("settings")
    for source, name in ((alone[2], "alone"), (singles[2], "singles")):
        shutil.copytree(source, tmp_path / name)
        train(load_config(source).override([("training.steps", 6)]), tmp_path / name)
    assert_same_lines(lines(tmp_path / "singles"), lines(tmp_path / "alone"))
    assert [line["step"] for line in lines(tmp_path / "singles") if line["split"] == "train"] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ConfigError, match="training.steps: 6 -> 4"):  # a continued run is not overwritten
        split(runs("settings")[0], config("settings"), [tmp_path / name for name in ("singles", "1", "2")])


@pytest.mark.slow
def test_an_interrupted_run_is_the_uninterrupted_one(runs, tmp_path, monkeypatch):
    """SIGTERM during the third step, then the same command. `split` is interrupted as well."""
    joint, _, singles = runs("settings")
    fetch, count = Clock.next, iter(range(1, 100))

    def fetching(self, *arguments):
        if next(count) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return fetch(self, *arguments)

    monkeypatch.setattr(Clock, "next", fetching)
    with pytest.raises(Interrupted):
        train(config("settings"), tmp_path / "joint")
    with pytest.raises(RunError, match=r"has not finished \(3 of 4 steps\)$"):
        split(tmp_path / "joint", config("settings"), [tmp_path / str(r) for r in range(3)])
    train(config("settings"), tmp_path / "joint")
    assert lines(tmp_path / "joint") == lines(joint)

    save, left = Checkpoints.save, iter([True, True, True, True])

    def saving(self, *arguments):
        if not next(left, False):
            raise KeyboardInterrupt
        save(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoints, "save", saving)
        split(tmp_path / "joint", config("settings"), [tmp_path / str(r) for r in range(3)])
    assert not (tmp_path / "1" / "checkpoints" / "4").exists()
    for _ in range(2):
        split(tmp_path / "joint", config("settings"), [tmp_path / str(r) for r in range(3)])
        for replica in range(3):
            assert lines(tmp_path / str(replica)) == lines(singles[replica])
            ours, theirs = (state_of(folder, 4)[1] for folder in (tmp_path / str(replica), singles[replica]))
            assert all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), ours, theirs)))


@pytest.mark.slow
def test_only_its_own_finished_run_is_dealt(runs, tmp_path):
    joint, alone, _ = runs("seeds")
    folders = [tmp_path / str(replica) for replica in range(3)]
    with pytest.raises(ConfigError, match="another config .*training.varied"):
        split(joint, config("settings"), folders)
    with pytest.raises(ConfigError, match="only a run with several replicas can be split"):
        split(alone[0], member_configs(config())[0], folders[:1])
    with pytest.raises(ConfigError, match="holds a run of another config .*training.seed: 6 -> 5"):
        split(joint, config("seeds", *TRAINED["seeds"]), [alone[1], folders[1]])


# Configs


def test_members_are_the_trials_that_would_run_alone(runs):
    """A member with the joint run's own seed has its config. The others also set the seed of the data order."""
    single = config().override([("training.replicas", 1)])
    assert config().identity == single.identity == config("settings").identity
    first, second, _ = member_configs(config())
    assert first == single and first.resolved["training"]["data_seed"] is None
    want = single.override([("training.seed", 6), ("training.data_seed", 5)])
    assert second == want and second.identity == want.identity != first.identity
    third = member_configs(config("settings"))[2]
    assert third == single.override(
        [("training.learning_rate", 1.0), ("model.dropout_rate", 0.3), ("task.label_smoothing", 0.2)]
    )
    assert third.resolved["model"]["encoder"]["dropout_rate"] == 0.3  # settings that inherit it vary with it
    seeds = lambda *more: [
        (member.resolved["training"]["seed"], member.resolved["training"]["data_seed"])
        for member in member_configs(config("seeds", *more))
    ]
    assert seeds(("training.varied", ("training.seed=3,5,3",))) == [(3, 5), (5, None), (3, 5)]
    assert seeds(("training.data_seed", 7)) == [(5, 7), (6, 7), (7, 7)]  # as in trials of a config that sets data_seed
    assert member_configs(single) == [single] and member_configs(single)[0] is single


def test_lists_on_a_command_line_need_no_quotes():
    texts = ",".join(LISTS)
    assert member_configs(config("seeds", ("training.varied", texts))) == member_configs(config("settings"))


@pytest.mark.parametrize(
    ("varied", "line"),
    [
        (["training.learning_rate=1,2"], "training.learning_rate has 2 value(s), training.replicas is 3"),
        (["model.num_layers=1,2,3"], "model.num_layers cannot differ between replicas; training.seed, "),
        (["training.batch_size=8,8,8"], "training.batch_size cannot differ between replicas; training.seed, "),
        (["training.data_seed=1,2,3"], "training.data_seed cannot differ between replicas; training.seed, "),
        (["training.seed=1,2,3"] * 2, "training.seed is given twice"),
        (["training.seed"], "training.seed: expected PATH=VALUE,VALUE, such as "),
    ],
)
def test_settings_that_cannot_vary_are_refused_before_writing(tmp_path, varied, line):
    with pytest.raises(ConfigError) as caught:
        train(config("seeds", ("training.varied", varied)), tmp_path / "run")
    assert str(caught.value).startswith(f"config.training.varied: {line}") and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_wrong_value_or_path_is_one_line():
    with pytest.raises(ConfigError, match=r"^config.task.label_smoothing: expected a float from 0 to below 1; got 1.0"):
        member_configs(config("seeds", ("training.varied", ["task.label_smoothing=0.1,0.2,1"])))
    with pytest.raises(ConfigError, match=r"^config.task.smoothing: no such setting"):
        member_configs(config("seeds", ("training.varied", ["task.smoothing=0.1,0.2,0.3"])))


# Settings that are arrays


def test_a_varied_number_is_a_float_with_a_path():
    rate = Varied(0.3, "model.dropout_rate")
    assert rate == 0.3 and hash(rate) == hash(0.3) and isinstance(rate, float)
    assert copy.deepcopy(rate).path == "model.dropout_rate" and copy.deepcopy(rate) == 0.3
    with scope({"model.dropout_rate": 0.5}):
        with scope({"model.dropout_rate": 0.7}):
            assert value(rate) == 0.7 and value(0.3) == 0.3 and value(2) == 2
        assert value(rate) == 0.5
    assert value(rate) == 0.3 and type(value(rate)) is float


RATES = np.asarray([0.0, 1e-6, 0.1, 0.25, 1 / 3, 0.5, 0.999], np.float32)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_varied_dropout_rate_equals_the_constant(dtype):
    """Bitwise equal, values included, if the compiler does not fold a constant's division into a multiplication."""
    x, key, marker = jnp.arange(1, 64, dtype=dtype).reshape(7, 9), jax.random.key(3), Varied(0.1, "rate")

    def varied(rate):
        with scope({"rate": rate}):
            return dropout(x, marker, key)

    for rate, got in zip(RATES, jax.jit(jax.vmap(varied))(RATES), strict=True):
        want = dropout(x, float(rate), key)
        np.testing.assert_array_equal(np.asarray(got == 0), np.asarray(want == 0), err_msg=str(rate))
        np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(want, np.float32), err_msg=str(rate))
    np.testing.assert_array_equal(dropout(x, marker, key), dropout(x, 0.1, key))
    assert dropout(x, marker, None) is x


def test_feeding_of_contexts_follows_a_varied_rate():
    from types import SimpleNamespace

    from attention_research.models.copying.conv_attention import ConvAttention

    draw = lambda rate: ConvAttention._by_context(SimpleNamespace(dropout_rate=rate), 1000, jax.random.key(1))

    def varied(rate):
        with scope({"rate": rate}):
            return draw(Varied(0.4, "rate"))

    for rate, got in zip(RATES, jax.vmap(varied)(RATES), strict=True):
        np.testing.assert_array_equal(got, draw(float(rate)))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in FAMILIES["schedule"] if kind != "step"),
        ("step", {"boundaries": (2, 5)}),
        *((kind, {"warmup_steps": 3}) for kind in ("constant", "cosine", "linear")),
        *((kind, {"warmup_steps": 3, "final": 0.1}) for kind in ("cosine", "linear")),
    ],
)
def test_every_schedule_takes_a_varied_learning_rate(kind, settings):
    make = lambda: lookup("schedule", kind)(**settings)
    rates, counts = np.asarray([1e-4, 0.3, 2.0], np.float32), jnp.arange(12)
    schedule = lambda rate: Training(steps=10, batch_size=1, learning_rate=rate, schedule=make).schedule(16)

    def varied(rate):
        with scope({"training.learning_rate": rate}):
            return jax.vmap(schedule(Varied(0.3, "training.learning_rate")))(counts)

    with jax.numpy_dtype_promotion("standard"):
        got = jax.jit(jax.vmap(varied))(rates)
        for row, rate in zip(got, rates, strict=True):
            want = jax.jit(jax.vmap(schedule(float(rate))))(counts)
            np.testing.assert_allclose(row, want, rtol=1e-6, atol=1e-6 * rate)
        assert schedule(Varied(0.3, "training.learning_rate"))(4) == schedule(0.3)(4)

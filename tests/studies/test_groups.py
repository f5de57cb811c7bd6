"""Trials that are trained together: how they are grouped, and that each equals its run alone."""

import json
import shutil

import numpy as np
import pytest

from attention_research.cli import main
from attention_research.studies import groups, worker
from attention_research.studies.groups import InOrder, grouped, prepare
from attention_research.studies.run import pending
from attention_research.studies.staleness import Stale
from attention_research.studies.sweep import sweep_study
from attention_research.studies.trial_folders import Folder, write_json
from attention_research.studies.trials import plan
from attention_research.training import split_replicas

CONFIG = "configs/translation/transformer.py:smoke"
TRAINING = {"steps": 12, "log_every": 2, "checkpoint_every": 6, "eval_every": 6, "batch_size": 4}
OVERRIDES = [(f"training.{name}", value) for name, value in TRAINING.items()]


def planned(*over, seeds=2, replicas=True, overrides=()):
    study = sweep_study(CONFIG, over, overrides=[*OVERRIDES, *overrides], seeds=seeds, replicas=replicas)
    return plan(study, "sweep", list(study.rows), seeds, "0" * 12)


def test_trials_that_differ_in_seeds_and_scalars_form_a_group(tmp_path):
    trials = planned("training.learning_rate=0.5,1", "model.dropout_rate=0,0.2", "task.label_smoothing=0.1")
    (group,) = grouped(trials, Folder(tmp_path))
    assert {trial.id for trial in group.members} == {trial.id for trial in trials} and len(trials) == 8
    assert group.trial.given["training"]["replicas"] == 8 and group.trial.name.startswith("8 together: learning_rate=")
    assert [stage["kind"] for stage in group.trial.stages] == ["train", "split"]


def test_members_that_are_read_at_their_best_have_every_evaluation_kept(tmp_path):
    for best, kept in (((), 1), (("training.chosen_checkpoint=best",), 3)):
        (group,) = grouped(planned("training.learning_rate=0.5,1", *best), Folder(tmp_path))
        assert group.trial.given["training"].get("keep_best", 1) == kept


def test_trials_with_other_shapes_or_batches_are_not_grouped(tmp_path):
    shapes = grouped(planned("model.num_heads=1,2", seeds=3), Folder(tmp_path))
    assert [len(group.members) for group in shapes] == [3, 3]
    assert not grouped(planned("model.num_heads=1,2", seeds=3, replicas=False), Folder(tmp_path))


def test_trials_that_end_at_a_step_of_their_own_are_not_grouped(tmp_path):
    assert not grouped(planned("training.learning_rate=0.5,1", "training.stop_at=0.9"), Folder(tmp_path))


def test_trials_under_pmap_are_not_grouped(tmp_path):
    trials = planned("training.learning_rate=0.5,1", overrides=[("parallel.strategy", "pmap")])
    assert not grouped(trials, Folder(tmp_path))


def test_a_trial_that_started_alone_continues_alone(tmp_path):
    first, *rest = planned("training.learning_rate=0.5,1")
    write_json(tmp_path / "trials" / first.id / "stages" / "x.json", {})
    (group,) = grouped([first, *rest], Folder(tmp_path))
    assert {trial.id for trial in group.members} == {trial.id for trial in rest}


RATES = "training.learning_rate=0.5,1"


@pytest.fixture
def begin(tmp_path):
    """begin(trials, ...) -> their only group, whose folder has a checkpoint, or the files of a later state."""

    def made(trials, *, trained=False, **files):
        folder = Folder(tmp_path)
        (group,) = grouped(trials, folder)
        for trial in trials:
            folder.prepare(trial, rerun_stale=False)
        place = prepare(group, folder)
        write_json(place / "checkpoints" / "6" / "digests", {})
        if trained:
            write_json(place / "stages" / f"{group.trial.stages[0]['address']}.json", {"loss": 1.0})
        for name, text in files.items():
            (place / name.replace("_", ".")).write_text(text)
        return group

    return made


def alone(trial, folder):
    """Gives a trial a checkpoint of its own."""
    write_json(folder / "trials" / trial.id / "checkpoints" / "6" / "digests", {})


def ids(group):
    return {trial.id for trial in group.members}


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_begun_group_continues_with_other_seeds(tmp_path, begin, seeds):
    """Of more seeds, only the new ones form a group. With fewer seeds, the begun group has more trials than wait."""
    before = begin(planned(RATES, seeds=2))
    trials = planned(RATES, seeds=seeds)
    first, *new = grouped(trials, Folder(tmp_path))
    assert first.trial == before.trial and ids(first) == ids(before) & {trial.id for trial in trials}
    assert [ids(group) for group in new] == ([{trial.id for trial in trials} - ids(before)] if seeds == 3 else [])


def test_finished_seeds_stay_and_only_new_ones_train(tmp_path):
    for replicas in (False, True):
        finished, folder = planned(RATES, seeds=1, replicas=replicas), Folder(tmp_path / str(replicas))
        for trial in finished:
            write_json(folder.trial(trial) / "result.json", {"stages": {}, "diverged": None, "curves": {}})
        more = planned(RATES, seeds=3, replicas=replicas)
        left = pending(more, folder, "keep")
        assert {trial.seed for trial in left} == {1, 2} and len(left) == 4 and len(more) == 6
        if replicas:
            assert [ids(group) for group in grouped(left, folder)] == [{trial.id for trial in left}]


@pytest.mark.parametrize("split", [0, 1, 3])
def test_a_group_whose_split_was_interrupted_splits_again(tmp_path, begin, split):
    """Trials that have only some of their checkpoints do not train again, and neither do those without any."""
    before = begin(planned(RATES, seeds=2), trained=True)
    for trial in before.members[:split]:
        alone(trial, tmp_path)
    (group,) = grouped(before.members, Folder(tmp_path))
    assert group == before


def test_a_split_group_splits_again_for_a_trial_that_is_run_again(tmp_path, begin):
    before = begin(planned(RATES, seeds=2), trained=True, result_json='{"stages": {}, "diverged": null, "curves": {}}')
    again, *split = before.members
    for trial in split:
        write_json(tmp_path / "trials" / trial.id / "stages" / f"{trial.stages[0]['address']}.json", {"loss": 1.0})
    (group,) = grouped(before.members, Folder(tmp_path))
    assert group.trial == before.trial and group.members == (again,)
    place = prepare(group, Folder(tmp_path))
    assert not (place / "result.json").exists() and len(list((place / "stages").iterdir())) == 1


@pytest.mark.parametrize("begun", [0, 1])
def test_a_group_that_diverged_is_not_trained_again(tmp_path, begin, begun):
    """Also not as a smaller group, of the trials that have not begun alone."""
    result = '{"stages": {}, "diverged": "step 4, seed 0: the loss is nan", "curves": {}}'
    before = begin(planned(RATES, seeds=2), result_json=result)
    for trial in before.members[:begun]:
        alone(trial, tmp_path)
    assert grouped(before.members, Folder(tmp_path)) == []


@pytest.mark.parametrize("begun", [0, 1])
def test_a_group_that_failed_is_tried_again_until_its_trials_run_alone(tmp_path, begin, begun):
    before = begin(planned(RATES, seeds=2))
    (Folder(tmp_path).group(before.trial.id) / "error.txt").write_text("no room left on the disk\n")
    for trial in before.members[:begun]:
        alone(trial, tmp_path)
    assert grouped(before.members, Folder(tmp_path)) == ([] if begun else [before])


def test_a_group_that_another_program_began_does_not_count(tmp_path, begin, monkeypatch):
    before = begin(planned(RATES, seeds=2))
    monkeypatch.setattr(groups, "state_of", lambda trial, result: Stale())
    alone(before.members[0], tmp_path)
    (group,) = grouped(before.members, Folder(tmp_path))
    assert ids(group) == {trial.id for trial in before.members[1:]}


def test_a_damaged_file_of_a_group_does_not_count(tmp_path, begin):
    before = begin(planned(RATES, seeds=2))
    (Folder(tmp_path).group(before.trial.id) / "trial.json").write_text('{"id": "x"}')
    assert grouped(before.members, Folder(tmp_path)) == [before]


def test_only_trials_that_are_not_trained_are_split(tmp_path, begin, monkeypatch):
    before, folder = begin(planned(RATES, seeds=2), trained=True), Folder(tmp_path)
    trained, gone, *others = (folder.trial(trial) for trial in before.members)
    outcome = trained / "stages" / f"{before.members[0].stages[0]['address']}.json"
    write_json(outcome, {"loss": 2.0})
    shutil.rmtree(gone)
    given = []
    monkeypatch.setattr(split_replicas, "split", lambda workdir, config, folders: given.extend(folders))
    place = folder.group(before.trial.id)
    assert groups.split(before.trial.stages[1], None, place) == {"trials": 4}
    assert given[:2] == [None, None] and [path.resolve() for path in given[2:]] == [path.resolve() for path in others]
    assert json.loads(outcome.read_text()) == {"loss": 2.0} and not gone.exists()
    for trial in before.members[2:]:
        stage = folder.trial(trial) / "stages" / f"{trial.stages[0]['address']}.json"
        assert json.loads(stage.read_text()) == {"loss": 1.0, "replicas": 4}


def test_members_come_after_their_group_and_alone_if_it_fails(tmp_path):
    trials = planned("training.learning_rate=0.5,1", "model.num_heads=1,2", seeds=1)
    groups = dict(zip([tmp_path / "a", tmp_path / "b"], grouped(trials, Folder(tmp_path)), strict=True))
    folders, told = {trial.id: Folder(tmp_path).trial(trial) for trial in trials}, []
    order = InOrder(folders, groups, lambda *said: told.append(said))
    coming = iter(order)
    assert [next(coming), next(coming), next(coming)] == [*groups, None]
    order.report(tmp_path / "b", "failed", "out of memory")
    mine = {folders[trial.id] for trial in groups[tmp_path / "b"].members}
    assert {next(coming), next(coming)} == mine and next(coming) is None
    assert told == [(tmp_path / "b", "failed", "out of memory; its trials run alone")]
    order.report(tmp_path / "a", "done", "")
    assert len({next(coming), next(coming)} - mine) == 2 and next(coming, "end") == "end"


def test_members_come_before_the_next_group(tmp_path):
    trials = planned("training.learning_rate=0.5,1", "model.num_heads=1,2", seeds=1)
    groups = dict(zip([tmp_path / "a", tmp_path / "b"], grouped(trials, Folder(tmp_path)), strict=True))
    folders = {trial.id: Folder(tmp_path).trial(trial) for trial in trials}
    order = InOrder(folders, groups, lambda *said: None)
    coming = iter(order)
    assert next(coming) == tmp_path / "a"
    order.report(tmp_path / "a", "done", "")
    mine = {folders[trial.id] for trial in groups[tmp_path / "a"].members}
    assert {next(coming), next(coming)} == mine and next(coming) == tmp_path / "b"


def curves(folder):
    return json.loads((folder / "result.json").read_text())["curves"]


@pytest.fixture
def sweep(in_process, capsys):
    """Runs the command. Returns its output: the table, and the messages while it runs."""

    def run(*arguments):
        assert main(["sweep", *arguments]) == 0
        return capsys.readouterr()

    return run


@pytest.mark.slow
@pytest.mark.data
def test_a_sweep_together_is_the_sweep_alone(tmp_path, sweep):
    over = ("training.learning_rate=0.5,1", "model.dropout_rate=0.1")
    options = [f"--config={CONFIG}", *(f"--config.{path}={value}" for path, value in OVERRIDES)]
    options += [*(f"--over={axis}" for axis in over), "--seeds=2", "--replicas", f"--workdir={tmp_path / 'together'}"]
    table, said = sweep(*options)
    assert "4 together" in said and "4 trials trained together" in table
    for trial in planned(*over):
        alone = Folder(tmp_path / "alone").prepare(trial, rerun_stale=False)
        assert worker.work(alone) == 0
        ours = tmp_path / "together" / "trials" / trial.id
        assert json.loads((ours / "trial.json").read_text())["given"]["training"].get("replicas", 1) == 1
        assert curves(ours).keys() == curves(alone).keys() == {"train", "validation"}
        for split, points in curves(ours).items():
            np.testing.assert_allclose(points, curves(alone)[split], rtol=1e-5)
        both = [json.loads((folder / "evaluation.json").read_text()) for folder in (ours, alone)]
        np.testing.assert_allclose(both[0]["perplexity"], both[1]["perplexity"], rtol=1e-4)
    assert sweep(*options).err.splitlines()[0].endswith(f"4 trials, 4 already done · {tmp_path / 'together'}")


@pytest.mark.slow
@pytest.mark.data
def test_a_diverged_member_does_not_affect_the_others(tmp_path, sweep):
    options = [f"--config={CONFIG}", *(f"--config.{path}={value}" for path, value in OVERRIDES), "--replicas"]
    table, said = sweep(*options, "--over=training.learning_rate=0.5,1e30", f"--workdir={tmp_path / 'x'}")
    assert "its trials run alone" in said and table.count("diverged (step") == 1

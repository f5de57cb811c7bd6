"""`record`: the order, the time limit, what is run, recorded and reported; mostly with simulated trials."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from results_of import page_of_the_record
from waiting import wait_for

from attention_research.cli import main
from attention_research.config import ConfigError
from attention_research.studies import attempts, figures, fingerprints, load_study, recording, records, run_study
from attention_research.studies import run as runs
from attention_research.studies.costs import Cost, Costs
from attention_research.studies.groups import Group, InOrder
from attention_research.studies.order import in_order
from attention_research.studies.runners.deadline import Deadline
from attention_research.studies.runners.loop import Terminated
from attention_research.studies.runners.loop import run as run_trials
from attention_research.studies.runners.supervision import Ending
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import plan
from attention_research.training import environment
from attention_research.training.workdir import locked

loop = sys.modules[run_trials.__module__]
RUN = Path("runs/fake-table-quick")
SECOND = '''"""A second table."""

from attention_research.studies import Row, Scale, Study, measure

def nothing(**settings):
    return {}

STUDY = Study(rows=(Row("three", "three", settings={"value": 3.0}),), scales={"quick": Scale(seeds=1)},
              stages=(measure(nothing),))
'''


class Executor:
    """Runs trials in this process. Each ends after `looks` polls, or stops on request, as training does."""

    jobs = 1

    def __init__(self, looks=1, ends=lambda row: None):
        self.looks, self.ends, self.started = looks, ends, []

    def open(self, workdir: Path) -> None:
        pass

    def close(self) -> None:
        pass

    def start(self, folder: Path):
        trial = json.loads((folder / "trial.json").read_text())
        self.started.append(f"{trial['row']} {trial['seed']}")
        (folder / "metrics.jsonl").write_text('{"step": 1, "split": "train", "loss": 2.5}\n')
        return Made(self, folder, trial)


class Made:
    def __init__(self, executor: Executor, folder: Path, trial: dict):
        self.executor, self.folder, self.trial, self.seen = executor, folder, trial, 0

    def begun(self) -> bool:
        return True

    def ending(self) -> Ending | None:
        self.seen += 1
        if (self.folder / attempts.STOP).exists():
            return Ending("killed", "ended with status 143")
        if self.seen < self.executor.looks:
            return None
        if (ended := self.executor.ends(self.trial["row"])) is not None:
            return ended
        told = {name: self.trial[name] for name in ("id", "row", "seed", "point", "fingerprint")}
        told["program"] = fingerprints.measurements(self.trial["stages"])
        stages = {"measure": {"value": self.trial["seed"], "stage_seconds": 3600.0}}
        result = {**told, "stages": stages, "diverged": None, "curves": {}, "environment": {}, "cores": 1}
        (self.folder / "result.json").write_text(json.dumps({**result, "seconds": 3600.0}))
        return Ending("done")


@pytest.fixture
def night(fake, monkeypatch):
    """night(executor, arguments...) -> the exit status of `record` for two studies, without pictures or waiting."""
    (fake / "fake/second.py").write_text(SECOND)
    monkeypatch.setattr(figures, "draw", lambda found, folder: [])
    monkeypatch.setattr(recording, "lowest", lambda: None)
    monkeypatch.setattr(loop, "_POLL_SECONDS", 0.0)

    pages = lambda: list(fake.glob("fake/results/*/quick/table.md"))

    def start(executor, *arguments):
        monkeypatch.setattr(runs, "find_executor", lambda runner, **settings: executor)
        before = {page: page.stat().st_mtime_ns for page in pages()}
        status = main(["record", "--scale=quick", *arguments])
        for page in (one for one in pages() if before.get(one) != one.stat().st_mtime_ns):
            study = f"fake/{page.parents[1].name}"
            with monkeypatch.context() as patch:
                patch.setattr(runs, "say", lambda line: None)
                assert page.read_text() == page_of_the_record(study, "quick", fake.parent / "alone" / study)
        return status

    return start


def cells(text: str) -> dict[str, list[str]]:
    """First cell -> the other cells, for each line of a printed table."""
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in lines[2:]}


@pytest.mark.slow
def test_all_studies_are_run_and_recorded_and_nothing_twice(night, fake, capsys):
    executor = Executor()
    assert night(executor, "--dry-run", "--hours=2") == 0
    said = capsys.readouterr().out
    assert cells(said) == {"fake/table": ["2", "4", "0", "?", "0.00", "unknown"],
                           "fake/second": ["0", "1", "0", "?", "0.00", "unknown"]}  # fmt: skip
    assert "2 studies, 5 trials at quick: 0.00 hours, without 5 trials whose time is unknown" in said
    assert executor.started == [] and not Path("runs").exists()

    assert night(executor) == 0
    assert executor.started == ["one 0", "one 1", "two 0", "two 1", "three 0"]
    assert cells(capsys.readouterr().out)["fake/table"] == ["4", "0", "0", "0", "", ""]
    pages = {path.parents[1].name: path.read_text() for path in fake.glob("fake/results/*/quick/table.md")}
    recorded = {name: page.partition("\n## ")[0] for name, page in pages.items()}
    assert recorded == {name: Path(f"runs/fake-{name}-quick/table.md").read_text() for name in ("table", "second")}

    assert night(executor) == 0 and len(executor.started) == 5
    assert capsys.readouterr().out == "nothing is missing or stale at quick\n"


def test_stale_trials_run_again_unless_they_are_kept(night, fake, capsys):
    night(Executor())
    for name, old, new in (("table", "0.5 * seed", "0.25 * seed"), ("second", "return {}", 'return {"one": 1}')):
        file = fake / "fake" / f"{name}.py"
        file.write_text(file.read_text().replace(old, new))
    capsys.readouterr()
    assert night(Executor(), "--dry-run", "--stale=keep") == 0
    assert capsys.readouterr().out.startswith("nothing")
    assert night(Executor(), "--dry-run", "--jobs=2") == 0
    found = cells(capsys.readouterr().out)
    assert found["fake/table"] == ["2", "0", "4", "2.00", "2.00", "trial"]  # recorded: one hour each, two at a time
    assert found["fake/second"] == ["0", "0", "1", "0.50", "2.50", "trial"]
    executor = Executor()
    assert night(executor, "fake/second") == 0 and executor.started == ["three 0"]


def test_a_failing_trial_and_a_broken_study_do_not_end_the_session(night, monkeypatch, capsys):
    executor = Executor(ends=lambda row: Ending("failed", "no such thing") if row == "one" else None)
    write = recording.run_study

    def broken(study, **how):
        if study.name == "fake/second":
            raise OSError("no place")
        return write(study, **how)

    monkeypatch.setattr(recording, "run_study", broken)
    assert night(executor) == 1
    out, err = capsys.readouterr()
    assert cells(out)["fake/table"] == ["2", "2", "2", "1.00", "study", "no such thing"]
    assert cells(out)["fake/second"][-1] == "OSError: no place"
    assert err.splitlines()[-1] == "error: 2 trials and 1 studies failed; the same command runs them again"


def test_a_table_takes_shared_trials_recorded_by_a_later_one(night, fake):
    twin = SECOND.replace("return {}", "return {}\n\nfrom .table import STUDY as FIRST")
    twin = re.sub(r"rows=.*?, scales", "rows=FIRST.rows[:2], scales", twin).replace("nothing),)", "nothing),)")
    (fake / "fake/twin.py").write_text(twin.replace("stages=(measure(nothing),)", "stages=FIRST.stages"))
    fails = iter([Ending("failed", "once")])
    executor = Executor(ends=lambda row: next(fails, None) if row == "two" else None)
    assert night(executor) == 1 and executor.started.count("two 0") == 2
    ours, theirs = (records.read(fake / f"fake/results/{name}/quick") for name in ("table", "twin"))
    assert ours == {**ours, **theirs} and len(ours) == 4


def test_what_was_finished_before_a_kill_is_recorded_by_the_next_command(night, fake, capsys):
    night(Executor(), "fake/second")
    run_study("fake/table", scale="quick")  # ... and the process is killed before it records
    assert not (fake / "fake/results/table").exists()
    executor = Executor()
    assert night(executor) == 0 and executor.started == []
    assert (fake / "fake/results/table/quick/table.md").exists()
    assert cells(capsys.readouterr().out)["fake/table"][:3] == ["0", "0", "0"]


@pytest.mark.parametrize(("stop", "status"), [(Terminated, 143), (KeyboardInterrupt, 130)])
def test_a_signal_records_what_is_finished_and_prints_the_table(night, fake, capsys, stop, status):
    def ends(row):
        if row == "two":
            raise stop

    assert night(Executor(ends=ends)) == status
    out, err = capsys.readouterr()
    assert cells(out)["fake/table"][:3] == ["2", "0", "2"] and cells(out)["fake/second"][:3] == ["0", "0", "1"]
    assert "stopped; the same command goes on" in err.splitlines()[-1]
    assert {one["row"] for one in records.read(fake / "fake/results/table/quick").values()} == {"one"}
    executor = Executor()
    assert night(executor) == 0 and executor.started == ["two 0", "two 1", "three 0"]


def test_a_table_that_cannot_be_recorded_at_the_end_is_named(night, monkeypatch, capsys):
    def ends(row):
        if row == "two":
            raise KeyboardInterrupt

    run = recording.run_study

    def full(study, render=False, **how):
        if render:
            raise OSError("no place")
        return run(study, **how)

    monkeypatch.setattr(recording, "run_study", full)
    assert night(Executor(ends=ends), "fake/table") == 130
    assert "fake/table: not recorded: OSError: no place" in capsys.readouterr().err


def test_a_study_at_work_elsewhere_is_skipped(night, capsys):
    executor = Executor()
    with locked(RUN):
        assert night(executor) == 0
    out, err = capsys.readouterr()
    assert executor.started == ["three 0"] and f"another process works in {RUN}: skipped" in err
    assert cells(out)["fake/table"][2] == "4"


def test_the_session_ends_in_time_and_stopped_trials_continue(night, monkeypatch, capsys):
    """A clock that counts polls: the first trial ends, the second is asked to stop, and no other starts."""
    clock = iter(range(10**6))

    def ticking(seconds, needs):
        return Deadline(100.0, needs, lambda: float(next(clock)))

    monkeypatch.setattr(recording, "Deadline", ticking)
    executor = Executor(looks=20)
    assert night(executor, "--hours=1", "fake/table", "fake/second") == 0
    out, err = capsys.readouterr()
    done = len(executor.started) - 1
    assert not Path("experiments/fake/results/second").exists()  # nothing was recorded there
    assert 0 < done < 4 and cells(out)["fake/table"][:3] == [str(done), "0", str(4 - done)]
    assert cells(out)["fake/second"][:3] == ["0", "0", "1"]
    assert "stopped  loss 2.50  goes on next time: the time is over" in err
    again = Executor()
    assert night(again) == 0 and again.started == [*["one 0", "one 1", "two 0", "two 1"][done:], "three 0"]


def test_the_loop_starts_what_fits_and_ends_what_does_not_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_POLL_SECONDS", 0.0)
    folders = [tmp_path / name for name in ("long", "short", "deaf")]
    for folder in folders:
        folder.mkdir()
        trial = dict.fromkeys(("id", "row", "seed", "point", "fingerprint"), 0)
        (folder / "trial.json").write_text(json.dumps({**trial, "stages": []}))
    now = [0.0]

    class Deaf(Executor):
        def start(self, folder):
            made = super().start(folder)
            if folder.name == "deaf":
                made.ending = lambda: None
            return made

    told = []

    def tick():
        now[0] += 10.0

    needs = {"long": 900.0, "short": 20.0, "deaf": 20.0}
    deadline = Deadline(600.0, lambda folder: needs[folder.name], lambda: now[0])
    outcome = run_trials(Deaf(), folders, tmp_path, lambda *state: told.append(state[:2]), tick, deadline=deadline)
    assert outcome == {folders[1]: "done"}
    assert told[0] == (folders[0], "left") and told[-1] == (folders[2], "stopped")
    assert json.loads((folders[2] / attempts.STOP).read_text())["again"] is True
    assert 600.0 - deadline.writes_for <= now[0] < 600.0


@pytest.mark.parametrize("state", ["stopped", "left"])
def test_trials_of_a_group_without_time_are_not_started_alone(state):
    members, other = [SimpleNamespace(id="a"), SimpleNamespace(id="b")], Path("c")
    folders = {"a": Path("a"), "b": Path("b"), "c": other}
    order = InOrder(folders, {Path("group"): Group(None, tuple(members))}, lambda *told: None)
    coming = iter(order)
    assert next(coming) == Path("group")
    order.report(Path("group"), state, "")
    assert list(coming) == [other]


def test_workers_inherit_the_lowest_priority():
    program = (
        "import os, subprocess, sys; from attention_research.studies.priority import lowest; lowest(); sys.exit("
        "subprocess.call([sys.executable, '-c', 'import os; print(os.nice(0), os.sched_getscheduler(0))']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["19", str(os.SCHED_IDLE)], done.stderr


@pytest.mark.slow
def test_a_session_at_low_priority_is_as_a_whole_at_low_priority():
    """Linux schedules sessions before processes: a worker's own session would get as much as any other."""
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("a kernel without autogroups")
    program = (
        "from attention_research.studies.priority import lowest, nice_session; lowest(); nice_session();"
        "print(open('/proc/self/autogroup').read().split()[-1])"
    )
    start = lambda new: subprocess.run([sys.executable, "-c", program], capture_output=True, start_new_session=new)
    assert start(True).stdout == b"19\n"
    assert start(False).stdout != b"19\n"  # the session of the tests contains other processes


def test_a_process_that_lowers_programs_ends_with_the_one_that_asked():
    asks = (
        "import os, subprocess, sys, time; "
        "program = 'from attention_research.studies.lowering import main; main(%d)' % os.getpid(); "
        "child = [sys.executable, '-c', program]; "
        "print(subprocess.Popen(child, stdin=0, stdout=2).pid, flush=True); time.sleep(600)"
    )
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}  # stdin stays open in this process
    with subprocess.Popen([sys.executable, "-c", asks], **pipe) as asking:
        lowering = int(asking.stdout.readline())
        asking.kill()
        place = Path(f"/proc/{lowering}/stat")
        wait_for(lambda: not place.exists() or place.read_text().split()[2] == "Z", seconds=60)


def test_an_order_file_comes_first_then_the_claims(tmp_path):
    claims = {"a/x": 1, "b/y": 5, "c/z": 1, "d/w": 0}
    assert in_order(claims, "cpu", None) == ["b/y", "a/x", "c/z", "d/w"]
    file = tmp_path / "order.txt"
    file.write_text("# first what is cheap\n\nd/w  # no claim\na/x quick\nc/z cpu\n")
    assert in_order(claims, "cpu", file) == ["d/w", "c/z", "b/y", "a/x"]
    assert in_order(claims, "quick", file) == ["d/w", "a/x", "b/y", "c/z"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a/y", "order.txt:1: no study 'a/y'; did you mean a/x?"),
        ("\na/x cpuu", "order.txt:2: expected STUDY [SCALE]; no scale 'cpuu'; did you mean cpu?"),
        (None, "--order=order.txt: cannot be read (No such file or directory)"),
    ],
)
def test_a_wrong_order_file_is_one_line(tmp_path, monkeypatch, text, line):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("order.txt").write_text(text)
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        in_order({"a/x": 1}, "cpu", Path("order.txt"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fake/tabel"], "study 'fake/tabel': no such study; did you mean fake/table?"),
        (["--scale=quik"], "--scale=quik: no study has it; did you mean quick?"),
        (["--scale=cpu", "fake/second"], "scale 'cpu': fake/second has no such scale; there are: quick"),
        (["--hours=0"], "--hours: expected a number above 0; got '0'"),
        (["--hours=soon"], "--hours: expected a number above 0; got 'soon'"),
        (["--jobs=0"], "--jobs: expected a number from 1 up; got '0'"),
    ],
)
def test_wrong_arguments_are_one_line(night, capsys, arguments, line):
    assert night(Executor(), *arguments) == 2
    assert capsys.readouterr().err == f"error: {line}\n" and not Path("runs").exists()


def test_a_modified_tree_is_refused_or_named_with_permission(night, fake, monkeypatch, capsys):
    monkeypatch.setattr(environment, "modified", lambda: ["a.py", "b.py", "c.py", "d.py"])
    line = "error: --record: modified files: a.py, b.py, c.py and 1 more; commit or stash them, or give --allow-dirty"
    executor = Executor()
    assert night(executor) == 2 and capsys.readouterr().err == f"{line}\n"
    assert main(["reproduce", "fake/table", "--scale=quick", "--record"]) == 2
    assert capsys.readouterr().err == f"{line}\n" and executor.started == [] and not Path("runs").exists()
    assert night(executor, "--dry-run") == 0
    assert night(executor, "--allow-dirty") == 0
    result = next(RUN.glob("trials/*/result.json"))
    told = json.loads(result.read_text())
    result.write_text(json.dumps({**told, "environment": {"modified": ["a.py"], "nice": 19}}))
    run_study("fake/table", scale="quick", render=True, record=True, allow_dirty=True)
    text = (fake / "fake/results/table/quick/table.md").read_text()
    assert "1 of 4 trials were recorded from a modified tree (a.py)." in text
    assert "low priority" not in text  # the table shows no speed


def test_records_are_not_modified_sources(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    record, source = tmp_path / "experiments/paper/results/table/cpu/table.md", tmp_path / "experiments/paper/table.py"
    record.parent.mkdir(parents=True)
    git("init")
    for file in (record, source):
        file.write_text("1\n")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.undo()
    monkeypatch.setattr(environment, "PACKAGE", tmp_path / "package")
    record.write_text("2\n")
    (tmp_path / "new.py").write_text("untracked\n")
    assert environment.modified() == [] and "-dirty" not in environment.git_revision()
    source.write_text("2\n")
    assert environment.modified() == ["experiments/paper/table.py"]
    assert environment.git_revision().endswith("-dirty")
    git("add", ".")
    assert environment.modified() == ["experiments/paper/table.py", "new.py"]


def test_hours_are_estimated_from_the_trial_its_row_or_its_study(fake, monkeypatch):
    study = load_study("fake/table", fake)
    trials = plan(study, "quick", study.rows_at("quick"), 2, "x")
    (one, again), (two, _) = trials[:2], trials[2:]
    folder = Folder(Path("runs/x"))

    def took(whole, **train):
        return {"seconds": whole, "stages": {"train": train, "evaluate": {"stage_seconds": 1.0}}}

    assert Costs([], folder).of(one) == Cost(None, "unknown", 0.0)
    costs = Costs([(one, took(30.0))], folder)
    assert costs.of(one) == Cost(30.0, "trial", 30.0)
    assert costs.of(again) == Cost(30.0, "row", 30.0) and costs.of(two) == Cost(30.0, "study", 30.0)
    # Three trials trained together in 60 s, then each alone for 30 s.
    assert Costs([(one, took(30.0, replicas=3, stage_seconds=60.0))], folder).of(one).seconds == 50.0
    # One trial that trains, with 10 s of start-up, and has done half of its steps.
    trained = dataclasses.replace(two, steps=100, stages=({"kind": "train"},))
    timed = took(200.0, stage_seconds=150.0, seconds=145.0, compile_seconds=5.0)
    place = folder.trial(trained)
    (place / "attempts").mkdir(parents=True)
    (place / "attempts/1.json").write_text('{"seconds": 70.0}')
    (place / "attempts/2.json").write_text("{}")
    (place / "metrics.jsonl").write_text('{"step": 50, "split": "train", "loss": 1.0}\n')
    assert Costs([(one, timed)], folder).of(trained) == Cost(100.0, "study", 20.0)
    assert Costs([], folder).of(trained) == Cost(70.0, "begun", 70.0)


@pytest.mark.slow
def test_the_plan_of_the_repository_needs_no_jax(root):
    program = (
        "import sys; from attention_research.cli import main\n"
        "status = main(['record', 'ablation/attention', '--dry-run', '--json'])\n"
        "print('imported', status, [name for name in ('jax', 'flax') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "imported 0 []"
    (study,) = json.loads(done.stdout)["studies"] or [{"study": "ablation/attention"}]
    assert study["study"] == "ablation/attention"


@pytest.mark.slow
@pytest.mark.data
def test_a_training_stopped_at_its_deadline_goes_on_to_the_same_numbers(experiments, tmp_path, root, monkeypatch):
    """With real workers: stopped at the fifth step and continued by the next command, against an uninterrupted run."""
    (experiments / "fake").mkdir()
    training = {"steps": 40, "log_every": 1, "checkpoint_every": 40, "eval_every": 40, "batch_size": 4}
    changes = {f"training.{name}": value for name, value in training.items()}
    scale = f'Scale("{root}/configs/translation/transformer.py:smoke", {changes}, seeds=1)'
    (experiments / "fake/trained.py").write_text(f"""'Trained.'
from attention_research.studies import Row, Scale, Study, train
STUDY = Study(rows=(Row("one", "one"),), scales={{"quick": {scale}}}, stages=(train,))
""")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "modified", lambda: [])
    monkeypatch.setattr(recording, "lowest", lambda: None)
    trials = Path("runs/fake-trained-quick/trials")

    class Fifth(Deadline):
        """A deadline that passes once five steps are logged. A trial has all the time that it needs to save."""

        def left(self):
            logs = list(trials.glob("*/metrics.jsonl"))
            return 0.0 if logs and len(logs[0].read_text().splitlines()) >= 5 else 1e6

        def over(self):
            return False

    night = ["record", "fake/trained", "--scale=quick"]
    with monkeypatch.context() as patch:
        patch.setattr(recording, "Deadline", Fifth)
        assert main([*night, "--hours=1"]) == 0
    (folder,) = trials.iterdir()
    saved = [int(path.name) for path in (folder / "checkpoints").iterdir() if path.name.isdecimal()]
    assert not (folder / "result.json").exists() and len(saved) == 1 and 5 <= saved[0] < 40
    assert not Path("experiments/fake/results").exists()
    assert main(night) == 0
    (stopped,) = records.read(Path("experiments/fake/results/trained/quick")).values()
    run_study("fake/trained", scale="quick", workdir=Path("whole"), ignore_records=True)
    (other,) = Path("whole").glob("trials/*/result.json")
    whole = json.loads(other.read_text())
    assert attempts.attempts(folder) == 2 and len(whole["curves"]["train"]) == 40
    assert (
        stopped["curves"] == whole["curves"] and stopped["stages"]["train"]["loss"] == whole["stages"]["train"]["loss"]
    )
    assert stopped["seconds"] == pytest.approx(attempts.spent(folder), rel=0.1)  # over both commands

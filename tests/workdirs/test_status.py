"""`status` over folders with known states: written by hand, or locked by another process."""

import json
import os
import subprocess
import sys

import pytest

from attention_research.cli import main
from attention_research.training.failure import failure_told
from attention_research.training.workdir import locked
from attention_research.workdirs.status import run_line, status, study_line


def test_states_steps_and_speed(make_run, tmp_path):
    """Steps 2, 3 and 4 have tokens/s: 100 tokens at 1/200, 1/400 and 1/400 seconds a token."""
    make_run(tmp_path / "a" / "done", 6)
    make_run(tmp_path / "a" / "half", 4, seeds=(0, 1))
    make_run(tmp_path / "b", 0)
    (tmp_path / "b" / "error.txt").write_text("no space left\n")
    found = {line.folder.removeprefix(f"{tmp_path}/"): line for line in status([tmp_path])}
    assert list(found) == ["a/done", "a/half", "b"]
    assert [line.state for line in found.values()] == ["finished", "stopped", "failed"]
    assert (found["a/half"].step, found["a/half"].steps) == (4, 6) and found["a/half"].loss == pytest.approx(7.0)
    assert found["a/half"].steps_per_second == pytest.approx(3) and found["a/half"].left is None
    assert found["b"].note == "no space left" and found["b"].step == 0 and found["b"].loss is None
    assert 0 <= found["a/done"].age < 60


def test_many_replicas_write_many_lines_at_each_step(make_run, tmp_path):
    """Those of the last step and of its validation are longer than the tail that is read first."""
    run = make_run(tmp_path / "run", 6, seeds=range(60))
    line = run_line(run)
    assert (line.state, line.step) == ("finished", 6) and line.loss == pytest.approx(4 + 2 * 29.5)


def test_the_last_step_without_its_checkpoint_is_not_the_end(make_run, tmp_path):
    make_run(tmp_path / "run", 6)
    (tmp_path / "run" / "checkpoints" / "6").rmdir()
    assert run_line(tmp_path / "run").state == "stopped"


@pytest.mark.parametrize(("stop_at", "state"), [(20.0, "finished"), (21.0, "stopped")])
def test_a_run_that_ended_early_is_finished(make_run, tmp_path, stop_at, state):
    """Validations at 2 and 4 have 22 and 20; of the last two, both are to be good enough."""
    stop = [("training.stop_at", stop_at), ("training.stop_by", "loss"), ("training.stop_checks", 2)]
    make_run(tmp_path / "run", 4, overrides=stop)
    assert run_line(tmp_path / "run").state == "stopped"
    (tmp_path / "run" / "checkpoints" / "4").mkdir(parents=True)
    assert run_line(tmp_path / "run").state == state


def test_a_run_that_a_process_holds_is_running_and_has_time_left(make_run, tmp_path):
    """Another process holds the lock. Reading the status neither waits for it, nor takes it, nor creates one."""
    run = make_run(tmp_path / "run", 4)
    assert run_line(run).state == "stopped" and not (run / ".lock").exists()
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(run / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        line = run_line(run)
        holder.stdin.close()
    assert line.state == "running" and line.left == pytest.approx(2 / 3)
    assert run_line(run).state == "stopped"
    with locked(run):  # the lock can still be taken after `status`
        assert run_line(run).state == "running"


def trial(study, name, seed=0, **files):
    folder = study / "trials" / f"{name}{seed}"
    folder.mkdir(parents=True)
    for file, content in {"trial": {"name": name, "seed": seed, "steps": 6}, **files}.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return folder


def test_a_study_and_its_trials(make_run, tmp_path):
    study = tmp_path / "runs" / "ablation-quick"
    trial(study, "one", result={"diverged": None})
    trial(study, "two", result={"diverged": "step 3: the loss is nan"})
    begun = trial(study, "three", progress={"stage": "evaluate"})
    waiting = trial(study, "waiting")
    (trial(study, "bad") / "error.txt").write_text("out of memory\n")
    (tmp_path / "runs" / "other").mkdir()
    (line,) = status([tmp_path / "runs"])
    assert (line.kind, line.state, line.note) == ("study", "failed", "2 of 5 trials, 1 failed")
    assert run_line(begun).state == run_line(waiting).state == "stopped"
    with locked(study):
        assert (study_line(study).state, run_line(begun).state) == ("running", "running")
        assert run_line(waiting).state == "waiting" and "evaluate" in run_line(begun).note
        assert study_line(study).note == "2 of 5 trials, 1 running, 1 failed, 1 waiting"
    lines = status([study])
    assert [one.kind for one in lines] == ["study", *["trial"] * 5]
    states = {one.note.split(" · ")[0]: one.state for one in lines[1:]}
    assert states["bad"] == "failed" and states["one"] == states["two"] == "finished"
    assert any(one.note == "two · seed 0 · diverged" for one in lines)


def test_a_failure_is_shown_until_the_run_continues(tmp_path):
    """error.txt holds one line. A requested stop is not a failure."""
    with pytest.raises(ZeroDivisionError), failure_told(tmp_path):
        raise ZeroDivisionError("two\nlines")
    assert (tmp_path / "error.txt").read_text() == "ZeroDivisionError: two lines\n"
    with pytest.raises(SystemExit), failure_told(tmp_path):
        assert not (tmp_path / "error.txt").exists()
        raise SystemExit(143)
    assert not (tmp_path / "error.txt").exists()


def test_one_line_each_and_json(make_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 0
    out, err = capsys.readouterr()
    assert out == "" and err == "no runs in runs\n"
    make_run(tmp_path / "runs" / "first", 6)
    make_run(tmp_path / "runs" / "second", 3, steps=4_000)
    assert main(["status"]) == 0
    titles, *lines = capsys.readouterr().out.splitlines()
    assert titles.split()[:4] == ["folder", "state", "step", "loss"]
    assert lines[0].split()[:4] == ["runs/first", "finished", "6/6", "4.000"]
    assert lines[1].split()[:4] == ["runs/second", "stopped", "3/4,000", "7.000"]
    assert main(["status", "runs/second", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["folder"], document["step"], document["steps"]) == ("runs/second", 3, 4000)


def test_no_jax_is_imported(make_run, tmp_path, root):
    """JAX is not imported by `status`, `compare` and wrong arguments of other commands, in a fresh process."""
    for name in ("a", "b"):
        make_run(tmp_path / name, 2)
    words = [["status", "."], ["compare", "a", "b"], ["report", "c"], ["export", "--workdir=a", "model.bin"]]
    code = f"import sys; from attention_research.cli import main\nfor words in {words}: main(words)\n"
    code += "print('imported', sorted(m for m in ('jax', 'flax', 'numpy', 'matplotlib') if m in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert run.stdout.strip().endswith("imported []"), run.stdout[-500:] + run.stderr[-500:]


def test_a_group_of_trials_has_a_line_before_its_members(tmp_path):
    study = tmp_path / "study"
    alone = trial(study, "alone")
    group = study / "groups" / "both"
    group.mkdir(parents=True)
    (group / "trial.json").write_text((alone / "trial.json").read_text())
    assert [line.folder for line in status([study])] == [str(study), str(group), str(alone)]
    assert status([study])[0].note.startswith("0 of 1 trials")
    (group / "result.json").write_text("{}")
    assert [line.folder for line in status([study])] == [str(study), str(alone)]

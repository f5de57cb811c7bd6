"""The metrics log and the small files of a run's folder, with a full disk and after a killed process."""

import fcntl
import json
import resource
import struct
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.training import initial, keeping, provenance, tracking
from attention_research.training.claiming import check
from attention_research.training.metrics_log import LOSS, MetricsLog, read_metrics
from attention_research.training.workdir import Busy, locked, saved_config, write_text


@pytest.fixture
def limit_file_size():
    """set(bytes): the kernel refuses to let a file grow beyond this size, as on a full disk.

    Restored after the test.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_counts_only_while_its_file_is_there(tmp_path, monkeypatch, again):
    """A failed start deletes its folder while this process waits for the lock, and a third process makes it again."""
    flock = fcntl.flock

    def slow(file, how):
        (tmp_path / ".lock").unlink()
        if again:
            (tmp_path / ".lock").touch()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with pytest.raises(Busy, match="another process uses this folder"), locked(tmp_path):
        pass


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    """`status` takes a shared lock to see whether a process holds the folder. It lets go while this process waits."""
    holder = (tmp_path / ".lock").open("w")
    fcntl.flock(holder, fcntl.LOCK_SH)
    waits = iter([None, None, holder.close])
    monkeypatch.setattr(time, "sleep", lambda seconds: (next(waits) or (lambda: None))())
    with locked(tmp_path):
        assert next(waits, "none left") == "none left"


def test_the_processes_of_a_continued_run_are_listed(tmp_path):
    """The entries about the whole run are not repeated; a start from step 0 forgets what was there."""
    document = lambda: json.loads((tmp_path / "environment.json").read_text())
    for number, step in enumerate((0, 0, 4, 7)):
        provenance.record(tmp_path, {"date": number, "initial": ["a"]}, step)
    first, second = {"date": 1}, {"date": 2, "from_step": 4}
    assert document() == {"date": 3, "initial": ["a"], "from_step": 7, "earlier": [first, second]}
    (tmp_path / "environment.json").write_text("{")
    provenance.record(tmp_path, {"date": 4}, 8)
    assert document() == {"date": 4, "from_step": 8, "earlier": []}


def test_a_partly_written_line_is_removed(tmp_path, limit_file_size):
    log = MetricsLog(tmp_path, 0)
    log.write(step=1, split="train", loss=2.5)
    size = (tmp_path / "metrics.jsonl").stat().st_size
    limit_file_size(size + 10)  # the kernel writes 10 bytes of the second line and reports it
    with pytest.raises(RunError, match=r"cannot write .*metrics.jsonl: .*rerun the same command"):
        log.write(step=2, split="train", loss=2.25)
    assert (tmp_path / "metrics.jsonl").stat().st_size == size
    log.close()


def test_a_continued_log_has_no_torn_line_and_no_step_beyond_the_checkpoint(tmp_path):
    lines = [{"step": step, "split": "train", "loss": step / 7} for step in (1, 2, 3, 4)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 5, "split": "tr')
    assert read_metrics(tmp_path) == lines
    log = MetricsLog(tmp_path, 2)
    log.write(step=3, split="train", loss=3 / 7)
    log.sync()
    log.close()
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(json.dumps(line) + "\n" for line in lines[:3])


def test_a_small_file_is_the_old_one_or_the_new_one(tmp_path, limit_file_size):
    write_text(tmp_path / "config.json", "old")
    limit_file_size(100)
    with pytest.raises(RunError, match="cannot write .*config.json: File too large"):
        write_text(tmp_path / "config.json", "new" * 100)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "old"


def test_validation_losses_are_means_over_seeds_of_numbers(tmp_path):
    log = MetricsLog(tmp_path, 0)
    for step, loss in ((2, 5.0), (2, 4.0), (4, 1.0), (4, float("nan")), (6, 3.0)):
        log.write(step=step, split="validation", loss=loss)
    log.write(step=6, split="train", loss=0.0)
    log.close()
    assert LOSS.costs(tmp_path) == {2: 4.5, 6: 3.0}


DAMAGED = ("", '{"vocabulary": {"fing', "[1]", "\x00\x00")
#: File -> (how it is read, what to do about a damaged one).
READERS = {
    "environment.json of a run that continues": (lambda run: keeping.same_as_recorded(None, run), "delete it"),
    "environment.json of a run that was initialised": (initial.kept, "delete it"),
    "wandb.json": (lambda run: tracking.WeightsAndBiases(run, "training"), "delete it to log to a new run"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", DAMAGED, ids=["empty", "cut", "a list", "zeros"])
def test_a_damaged_file_of_a_run_is_one_line(reader, text, tmp_path, monkeypatch):
    """A failure of the machine can leave such a file. Without an error, what it records would be lost in silence."""
    monkeypatch.setattr(tracking, "_package", lambda *names: None)
    path, (read, remedy) = tmp_path / reader.split()[0], READERS[reader]
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"^{path}: damaged \(.*\); restore it, or {remedy}$"):
        read(tmp_path)
    assert path.read_text() == text


def test_a_damaged_config_is_named_with_its_folder(tmp_path):
    (tmp_path / "config.json").write_text('{"given": {')
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/config\.json: not a saved config \(JSONDecodeError: "):
        saved_config(tmp_path)


def test_an_older_run_continues_if_new_settings_have_their_old_meaning(tmp_path):
    config = load("configs/translation/transformer.py:smoke")
    document = json.loads(config.to_json())
    del document["resolved"]["training"]["chosen_checkpoint"]
    write_text(tmp_path / "config.json", json.dumps(document))
    write_text(tmp_path / "metrics.jsonl", '{"step": 3, "split": "train"}\n')
    check(tmp_path, config)
    with pytest.raises(ConfigError, match=r"another config \(training.chosen_checkpoint: \(absent\) -> best\)"):
        check(tmp_path, config.override([("training.chosen_checkpoint", "best")]))


# Trackers


def events(folder, part):
    """(tag, step, number or None) from the event files of a part, in TensorBoard's format."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for path in folder.glob(f"tensorboard/events.*.{part}"):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            for value in event.summary.value:
                number = value.simple_value if value.HasField("simple_value") else None
                found.append((value.tag, event.step, number))
    return found


@pytest.fixture
def tracked(tmp_path):
    """A run's folder. begun(step) returns its log and trackers as `train` opens them."""
    (tmp_path / "config.json").write_text(load("configs/translation/transformer.py:smoke").to_json())

    def begun(kind, step=0):
        log = MetricsLog(tmp_path, step)
        return tracking.TrackedLog(log, tracking.opened([kind], tmp_path))

    return begun


def written(log, steps):
    for step in steps:
        log.write(step=step, split="train", seed=0, loss=9.0 - step)
    log.write(step=steps[-1], split="validation", seed=0, loss=4.0, **{"b.bleu": 2.5, "gone": float("nan")})
    log.close()


def test_tensorboard_has_the_lines_of_the_log_once_after_a_resume(tracked, tmp_path):
    pytest.importorskip("tensorboardX")
    written(tracked("tensorboard"), [1, 2, 3])
    written(tracked("tensorboard", 2), [3, 4])  # 3 was logged already, beyond the checkpoint
    found = events(tmp_path, "training")
    assert [one for one in found if one[0] == "train/loss"] == [
        ("train/loss", step, 9.0 - step) for step in (1, 2, 3, 4)
    ]
    assert ("validation/b.bleu", 4, 2.5) in found and ("validation/loss", 3, 4.0) not in found


class FakeRun:
    def __init__(self, calls):
        self.calls = calls

    def log(self, values, step=None):
        self.calls.append((values, step))

    def finish(self):
        self.calls.append("finish")


@pytest.fixture
def wandb(monkeypatch):
    """A fake module with the calls that are used: init(...) -> run, Image(path).

    `opened` holds the arguments of init.
    """
    module = SimpleNamespace(calls=[], opened=[], Image=lambda path: f"picture {Path(path).name}")

    def init(**arguments):
        module.opened.append(arguments)
        return FakeRun(module.calls)

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_weights_and_biases_gets_each_step_once_under_one_id(tracked, tmp_path, wandb):
    written(tracked("wandb"), [1, 2])
    written(tracked("wandb", 2), [3, 4])
    losses = [(step, values["train/loss"]) for values, step in filter(lambda x: x != "finish", wandb.calls)
              if "train/loss" in values]  # fmt: skip
    assert losses == [(step, 9.0 - step) for step in (1, 2, 3, 4)]
    first, second = wandb.opened
    assert first["id"] == second["id"] and first["resume"] == "allow" and first["config"]["training"]["seed"] == 0
    (results,) = tracking.opened(["wandb"], tmp_path, tracking.RESULTS)
    results.numbers(2, {"evaluation/test_bleu": 3.0})
    results.picture("loss", tmp_path / "loss.png", 2)
    assert wandb.calls[-2:] == [({"evaluation/test_bleu": 3.0}, None), ({"loss": "picture loss.png"}, None)]


def test_a_missing_package_is_one_line_that_names_the_extra(monkeypatch):
    for kind, package, extra in (("tensorboard", "tensorboardX", "track"), ("wandb", "wandb", "wandb")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ConfigError, match=rf"track: {package} is missing, the extra `{extra}`: pip install"):
            tracking.check([kind])


def test_tracking_does_not_change_the_identity():
    plain = load("configs/translation/transformer.py:smoke")
    assert plain.override([("training.track", ("tensorboard",))]).identity == plain.identity


@pytest.mark.parametrize("first", [True, False])
def test_only_the_first_host_gives_pictures_to_trackers(tmp_path, monkeypatch, first):
    given = []
    monkeypatch.setattr("attention_research.training.run.train", lambda *_, **options: {"steps": 1})
    monkeypatch.setattr("attention_research.workdirs.figures.track", given.append)
    monkeypatch.setattr("attention_research.parallel.hosts.is_first", lambda: first)
    options = [f"--workdir={tmp_path}", "--config.training.track=tensorboard"]
    assert main(["train", "--config=translation/transformer:smoke", *options]) == 0
    assert given == ([tmp_path] if first else [])

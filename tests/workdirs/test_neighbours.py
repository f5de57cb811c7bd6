"""Unreadable or foreign folders and files beside good runs, links, and folders that cannot be written to."""

import json
import os
import shutil

import pytest

from attention_research.cli import main
from attention_research.errors import ConfigError
from attention_research.training.metrics_log import read_metrics
from attention_research.training.workdir import json_text, locked
from attention_research.workdirs.comparison import compare
from attention_research.workdirs.status import status

DEEP = "[" * 3_000
#: Name -> wrong content for a file of a run.
CONTENTS = {
    "empty": b"", "half": b'{"spec": "x", "given": {', "binary": bytes(range(256)), "list": b"[1, 2]", "null": b"null",
    "number": b"3", "latin-1": b'{"a": "caf\xe9"}',
    "other": b'{"given": 1, "resolved": [], "spec": 2}',
    "odd": b'{"given": {}, "resolved": {"training": {"steps": "six"}}, "spec": ""}', "deep": DEEP.encode(),
}  # fmt: skip
FILES = (
    "config.json",
    "metrics.jsonl",
    "environment.json",
    "evaluation.json",
    "result.json",
    "trial.json",
    "error.txt",
)
#: Lines that do not count as the line of a step.
LINES = [
    b"", b"{", b"null", b"[1]", b"3", b'"text"', b"\xff\xfe", b'{"step": 1}', b'{"split": "train", "loss": 1.0}',
    b'{"step": "2", "split": "train"}', b'{"step": true, "split": "train"}', b'{"step": 2.5, "split": "train"}',
    DEEP.encode(),
]  # fmt: skip
#: Lines that count as the line of a step, with unknown keys, missing keys or values of other types.
ODD = [
    b'{"step": 5, "split": "train", "loss": NaN, "tokens": 1.0, "tokens_per_second": -Infinity, "unknown": {"a": [1]}}',
    b'{"step": 5, "split": "train", "loss": null, "seed": 0}', b'{"step": 5, "split": "validation", "seed": 0}',
    b'{"step": 6, "split": "train", "seed": 0, "loss": 3.0, "tokens": "x", "tokens_per_second": 0}',
]  # fmt: skip


def strict(text):
    """Parses JSON with a strict reader that rejects NaN."""

    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def runs(make_run, tmp_path, evaluation):
    for name in ("a", "b"):
        make_run(tmp_path / "runs" / name, 6, evaluation=evaluation)
    return tmp_path / "runs"


def harmed(runs, file, content):
    shutil.copytree(runs / "a", runs / "harmed")
    (runs / "harmed" / file).write_bytes(content)
    return runs / "harmed"


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_does_not_affect_other_runs(file, content, runs, capsys):
    folder = harmed(runs, file, content)
    assert main(["status", str(runs), "--json"]) == 0
    lines = {os.path.basename(line["folder"]): line for line in strict(capsys.readouterr().out)}
    assert list(lines) == ["a", "b", "harmed"] and lines["a"]["state"] == lines["b"]["state"] == "finished"
    assert lines["harmed"]["state"] == "unreadable" or file != "config.json"
    assert main(["status", str(runs)]) == 0
    capsys.readouterr()
    assert main(["compare", *(str(runs / name) for name in ("a", "b", "harmed")), "--json"]) == 0
    out, err = capsys.readouterr()
    document = strict(out)
    assert len(document["runs"]) == (2 if file == "config.json" else 3)
    assert (f"left out: {folder}: config.json" in err) == (file == "config.json") and "Traceback" not in err
    if file == "config.json":
        for words in (["report", str(folder)], ["compare", str(runs / "a"), str(folder)]):
            assert main(words) == 2 and capsys.readouterr().err.count("\n") == 1


def test_odd_lines_of_a_log_are_skipped_or_partly_used(runs, capsys):
    good = (runs / "a" / "metrics.jsonl").read_bytes()
    folder = harmed(runs, "metrics.jsonl", good + b"\n".join(LINES) + b"\n" + b"\n".join(ODD))
    assert len(read_metrics(folder)) == len(read_metrics(runs / "a")) + len(ODD)
    assert main(["status", str(folder), "--json"]) == 0
    (line,) = strict(capsys.readouterr().out)
    assert line["step"] == 6 and line["steps_per_second"] == pytest.approx(10 / 3)
    assert main(["compare", str(runs / "a"), str(folder), "--json"]) == 0
    assert strict(capsys.readouterr().out)["numbers"]["training_loss"][1] is None
    assert main(["report", str(folder)]) == 0


def test_a_file_that_cannot_be_read_and_a_folder_that_cannot_be_searched(runs, monkeypatch, capsys):
    """/proc/self/mem refuses every reader, including root."""
    (runs / "broken").mkdir()
    (runs / "broken" / "config.json").symlink_to("/proc/self/mem")
    (runs / "closed").mkdir()
    scan = os.scandir

    def refuse(path):
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = {os.path.basename(line.folder): line for line in status([runs])}
    assert [found[name].state for name in ("a", "b", "broken", "closed")] == ["finished"] * 2 + ["unreadable"] * 2
    assert found["closed"].note == "Permission denied" and "Input/output error" in found["broken"].note
    with pytest.raises(ConfigError, match="Input/output error"):
        compare([runs / "a", runs / "broken"])


def test_links_are_followed_without_cycles(runs, make_run, tmp_path):
    make_run(tmp_path / "elsewhere" / "deep" / "c", 6)
    (runs / "best").symlink_to("a")
    (runs / "far").symlink_to(tmp_path / "elsewhere")
    (runs / "up").symlink_to("..")
    (runs / "root").symlink_to("/")
    (runs / "self").symlink_to("self")
    (tmp_path / "elsewhere" / "back").symlink_to(runs)
    (tmp_path / "link").symlink_to(runs)
    for top in (runs, tmp_path / "link"):
        found = [os.path.relpath(line.folder, top) for line in status([top])]
        assert found == ["a", "b", "best", "far/deep/c"]


def test_json_has_null_for_nan():
    found = {"a": float("nan"), "b": [float("inf"), {"c": (-float("inf"), 1.5, True, None, "NaN")}]}
    assert strict(json_text(found)) == {"a": None, "b": [None, {"c": [None, 1.5, True, None, "NaN"]}]}


@pytest.mark.parametrize("place", ["/proc/run", "file/run", "file", "dangling"])
def test_an_unwritable_folder_is_a_user_error(place, tmp_path, runs, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("/proc/nothing")
    folder = tmp_path / place
    with (
        pytest.raises(ConfigError, match=r"^--workdir=.*: cannot write there \(.*\); give another folder"),
        locked(folder),
    ):
        pass
    assert main(["report", str(runs / "a"), f"--output={folder / 'x.html'}"]) == 1
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "not written: " in err and "give --output=FILE in another folder" in err

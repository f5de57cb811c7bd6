"""Progress, read from the trials' folders: plain lines without a terminal, one table on a terminal."""

import io
import json
import time

import pytest
from results_of import trial

from attention_research.studies import progress
from attention_research.studies.progress import Progress, last_entry, merged
from attention_research.studies.trial_folders import Folder, write_json


def line(step, loss, split="train"):
    return json.dumps({"step": step, "split": split, "loss": loss, "tokens_per_second": 14300.0}) + "\n"


def test_the_last_complete_training_line_counts(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    assert last_entry(metrics) is None
    metrics.write_text(line(10, 6.0) * 500 + line(20, 5.5) + line(20, 5.0, "validation") + '{"step": 30, "sp')
    assert last_entry(metrics)["loss"] == 5.5


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()], ids=["lines", "terminal"])
def test_what_a_trial_does_is_shown(tmp_path, monkeypatch, out):
    monkeypatch.setattr(progress, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    trials = [trial("a", 0, name="first [row]"), trial("b", 0, name="second"), trial("b", 1, name="second")]
    folder = Folder(tmp_path)
    running = folder.trial(trials[0])
    with Progress(trials, folder, {trials[2].id}, out) as shown:
        shown.report(running, "running", "")
        write_json(running / "progress.json", {"stage": "train"})
        (running / "metrics.jsonl").write_text(line(200, 4.5))
        shown.tick()
        shown.states[running].since = (time.monotonic() - 10.0, 200)
        (running / "metrics.jsonl").write_text(line(200, 4.5) + line(320, 4.22))
        shown.tick()
        assert shown.states[running].left() == pytest.approx(10.0 / 120 * 280, rel=0.05)
        shown.report(running, "failed", "no room left")
    text = out.getvalue()
    for words in ("first [row]", "training", "320/600", "4.22", "14,300", "0:23", "no room left"):
        assert words in text
    table = text.split("no room left")[0 if out.isatty() else 1]
    assert ("first [row]" in table and "tokens/s" in table) is out.isatty()


def test_seeds_that_wait_or_are_done_share_a_line():
    cells = [["a", "0", "done", "x"], ["a", "1", "done", "y"], ["b", "0", "training", ""], ["b", "1", "waiting", ""]]
    cells += [["b", "2", "waiting", ""], ["c", "0", "waiting", ""]]
    assert [line[:3] for line in merged(cells)] == [
        ["a", "0,1", "done"],
        ["b", "0", "training"],
        ["b", "1,2", "waiting"],
        ["c", "0", "waiting"],
    ]

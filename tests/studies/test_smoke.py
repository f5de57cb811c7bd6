"""The whole path, as a user starts it: `reproduce ablation/attention --scale=smoke`, on real text."""

import json
import subprocess
import sys

import pyarrow.parquet
import pytest

pytestmark = [pytest.mark.data, pytest.mark.slow]
ROWS = ("standard", "unscaled", "relative", "linformer_8", "linformer_16", "linformer_32", "no_positions")


@pytest.fixture(scope="module")
def run(root, tmp_path_factory):
    """(workdir, the finished command)."""
    workdir = tmp_path_factory.mktemp("smoke") / "run"
    command = [sys.executable, "-m", "attention_research", "reproduce", "ablation/attention", "--scale=smoke"]
    return workdir, subprocess.run([*command, f"--workdir={workdir}"], cwd=root, capture_output=True, text=True)


def test_it_ends_by_printing_the_table_and_where_everything_is(run):
    workdir, done = run
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"table {workdir}/table.md · figure {workdir}/figures/" in done.stdout.splitlines()[-1]
    assert done.stdout.count("| Linformer, rank") == 3 and "7 trials, 0 already done" in done.stderr
    assert "data  bible_translate/fr-en · 2" in done.stderr


def test_every_row_was_trained_evaluated_and_counted(run):
    workdir, _ = run
    rows = {row["id"]: row["cells"] for row in json.loads((workdir / "summary.json").read_text())["rows"]}
    assert tuple(rows) == ROWS
    trials = [json.loads(path.read_text()) for path in workdir.glob("trials/*/result.json")]
    assert {trial["row"] for trial in trials} == set(ROWS)
    for trial in trials:
        assert trial["stages"]["train"]["steps"] == 4 and trial["stages"]["evaluate"]["sentences"] == 16
        assert "tok:13a" in trial["stages"]["evaluate"]["signature"] and trial["peak_memory_bytes"] > 1e8
    count = {trial["row"]: trial["stages"]["inspect"]["parameters"] for trial in trials}
    # Linformer adds E and F, [rank, 64] each, in the encoder's layer and the cross-attention; Shaw two tables of 33 x 8
    # a self-attention; no_positions nothing, since sinusoids have no parameters.
    assert count["linformer_16"] - count["standard"] == 2 * 2 * 16 * 64
    assert count["relative"] - count["standard"] == 2 * 2 * 33 * 8
    assert count["unscaled"] == count["no_positions"] == count["standard"]
    assert pyarrow.parquet.read_table(workdir / "results.parquet").num_rows == 7


def test_verdicts_are_computed_and_not_given_at_this_scale(run):
    verdicts = json.loads((run[0] / "summary.json").read_text())["verdicts"]
    assert len(verdicts) == 3 and not any(verdict["judged"] for verdict in verdicts)


def test_running_it_again_trains_nothing(run, root):
    workdir, _ = run
    command = [sys.executable, "-m", "attention_research", "reproduce", "ablation/attention", "--scale=smoke"]
    again = subprocess.run([*command, f"--workdir={workdir}"], cwd=root, capture_output=True, text=True)
    assert again.returncode == 0 and "7 trials, 7 already done" in again.stderr and "starting" not in again.stderr


def test_the_page_asks_nothing_of_the_network(run):
    page = (run[0] / "report.html").read_text()
    assert "<table" in page and 'src="data:image/png;base64' in page
    assert not any(asks in page for asks in ('src="http', "<script src", 'rel="stylesheet"', "@import", "url(http"))

"""The whole path as a user starts it: `reproduce ablation/attention --scale=smoke`, on real words."""

import json
import subprocess
import sys

import pyarrow.parquet
import pytest

pytestmark = [pytest.mark.data, pytest.mark.slow]
ROWS = ("standard", "unscaled", "relative_8", "linformer_8", "linformer_4", "no_positions")


@pytest.fixture(scope="module")
def run(root, tmp_path_factory):
    """(workdir, the finished command)."""
    workdir = tmp_path_factory.mktemp("smoke") / "run"
    command = [sys.executable, "-m", "attention_research", "reproduce", "ablation/attention", "--scale=smoke"]
    return workdir, subprocess.run([*command, f"--workdir={workdir}"], cwd=root, capture_output=True, text=True)


def test_it_ends_by_printing_the_table_and_where_everything_is(run):
    workdir, done = run
    assert done.returncode == 0, done.stderr[-2000:]
    files = f"table {workdir}/table.md · figure {workdir}/figures/"  # one seed measures no case of a claim
    assert files in done.stdout.splitlines()[-1]
    assert done.stdout.count("| Linformer, rank") == 2 and "6 trials, 0 already done" in done.stderr
    assert "data  pronunciation/en · 512" in done.stderr
    assert "what the row 'scaled dot product' writes" in done.stdout and done.stdout.count("/attention.html\n") == 1


def test_every_row_was_trained_evaluated_and_counted(run):
    workdir, _ = run
    rows = {row["id"]: row["cells"] for row in json.loads((workdir / "summary.json").read_text())["rows"]}
    assert tuple(rows) == ROWS  # published systems are shown at `quick` only
    trials = [json.loads(path.read_text()) for path in workdir.glob("trials/*/result.json")]
    assert {trial["row"] for trial in trials} == set(ROWS)
    for trial in trials:
        assert trial["stages"]["train"]["steps"] == 4 and trial["stages"]["evaluate"]["sentences"] == 16
        assert trial["stages"]["evaluate"]["word_error_rate"] > 50 and trial["peak_memory_bytes"] > 1e8
        first = ["projection 1"] * 3 if trial["row"].startswith("linformer") else ["a", "n", "p"]
        assert [one["source"][0] for one in trial["stages"]["measure"]["maps"]] == first
    count = {trial["row"]: trial["stages"]["inspect"]["parameters"] for trial in trials}
    # Linformer adds E and F, [rank, 32] each, in the encoder's layer and the cross-attention. Shaw adds two tables of
    # 17 x 8 for each self-attention. no_positions adds nothing, since sinusoids have no parameters.
    assert count["linformer_8"] - count["standard"] == 2 * 2 * 8 * 32
    assert count["relative_8"] - count["standard"] == 2 * 2 * 17 * 8
    assert count["unscaled"] == count["no_positions"] == count["standard"]
    assert pyarrow.parquet.read_table(workdir / "results.parquet").num_rows == 6


def test_verdicts_are_computed_and_not_judged_at_this_scale(run):
    verdicts = json.loads((run[0] / "summary.json").read_text())["verdicts"]
    assert len(verdicts) == 3 and not any(verdict["judged"] for verdict in verdicts)


def test_running_it_again_trains_nothing(run, root):
    workdir, _ = run
    command = [sys.executable, "-m", "attention_research", "reproduce", "ablation/attention", "--scale=smoke"]
    again = subprocess.run([*command, f"--workdir={workdir}"], cwd=root, capture_output=True, text=True)
    assert again.returncode == 0 and "6 trials, 6 already done" in again.stderr and "starting" not in again.stderr


def test_the_page_asks_nothing_of_the_network(run):
    page = (run[0] / "report.html").read_text()
    assert "<table" in page and 'src="data:image/png;base64' in page
    assert not any(asks in page for asks in ('src="http', "<script src", 'rel="stylesheet"', "@import", "url(http"))

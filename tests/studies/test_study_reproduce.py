"""`reproduce` with real workers: what runs, what is not run again, and the written and printed output."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest

from attention_research.config import ConfigError
from attention_research.errors import RunError
from attention_research.studies import find_studies, load_study, records, reproduce, run_study
from attention_research.training.workdir import locked
from tests.tiers import fast_are

RUN = Path("runs/fake-table-quick")


def test_a_study_runs_once_and_reports_everything(fake, ran, capsys):
    assert reproduce("fake/table", scale="quick") == 0
    summary = json.loads((RUN / "summary.json").read_text())
    out, err = capsys.readouterr()
    assert ran() == ["1.0 0", "1.0 1", "2.0 0", "2.0 1"]
    assert err.splitlines()[0] == f"fake/table · quick · 2 rows x 2 seeds · 4 trials, 0 already done · {RUN}"
    assert "one | first  0  measuring" in err or "one | first  0  starting" in err
    *_, trials, files = out.splitlines()
    assert trials == f"trials {RUN}/trials · their rows and folders: attention-research status {RUN}"
    assert files == f"table {RUN}/table.md · verdicts {RUN}/verdicts.md · page {RUN}/report.html"
    # 1.0 and 1.5: mean 1.25, sample deviation 0.354. The other row has 2.0 and 2.5.
    lines = (RUN / "table.md").read_text().splitlines()
    assert re.sub(" +", " ", lines[4]) == "| one \\| first | 1.25 ± 0.35 | 0.9 | 2 |"
    assert re.sub(" +", " ", lines[5]) == "| <i>two</i> | 2.25 ± 0.35 | | 2 |"
    assert (RUN / "table.csv").read_text().splitlines()[1] == "one | first,1.25 ± 0.35,0.9,2"
    assert summary["rows"][1]["cells"]["measure.value"]["values"] == [2.0, 2.5]
    assert summary["finished"] == summary["trials"] == 4
    assert {one["status"] for one in summary["verdicts"]} == {"not judged at this scale"}
    assert all(json.loads(path.read_text())["cores"] == 1 for path in RUN.glob("trials/*/result.json"))

    parquet = pyarrow.parquet.read_table(RUN / "results.parquet").to_pylist()
    trials = {path.parent.name: json.loads(path.read_text()) for path in RUN.glob("trials/*/result.json")}
    assert {line["id"]: line["measure.value"] for line in parquet} == {
        name: trial["stages"]["measure"]["value"] for name, trial in trials.items()
    }
    assert len(parquet) == 4 and not any(line["stale"] for line in parquet)

    page = (RUN / "report.html").read_text()
    assert "&lt;i&gt;two&lt;/i&gt;" in page and "<i>" not in page and "<b>markup" not in page
    assert "0123abc" in page and "attention-research reproduce fake/table --scale=quick" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)|url\(|@import|https?://""", page)
    assert '<th scope="col"' in page and '<th scope="row">' in page
    folders = [one["folder"] for one in summary["trial_folders"]]
    assert [(one["row"], one["seed"]) for one in summary["trial_folders"]][:2] == [
        ("one | first", 0),
        ("one | first", 1),
    ]
    assert sorted(folders) == sorted(str(path) for path in RUN.glob("trials/*")) and all(one in page for one in folders)

    assert reproduce("fake/table", scale="quick", as_json=True) == 0
    out, err = capsys.readouterr()
    assert len(ran()) == 4 and "4 trials, 4 already done" in err
    assert json.loads(out) == summary


@pytest.mark.slow
def test_only_the_wanted_rows_run_and_the_others_stay_blank(fake, ran):
    summary = run_study("fake/table", scale="quick", rows=("two",), seeds=1)
    assert ran() == ["2.0 0"]
    notes = {row["id"]: row["notes"] for row in summary["rows"]}
    assert notes == {"one": "not run", "two": ""}
    assert ": not run" in (RUN / "table.md").read_text()


def test_a_killed_worker_is_retried_and_a_failing_trial_stops_nobody(fake, ran, capsys):
    with pytest.raises(RunError, match=r"^2 of 6 trials failed: (ValueError: no <such> thing|killed)"):
        reproduce("fake/table", scale="deaths")
    assert ran() == ["1.0 0", "2.0 0"] + ["4.0 0"] * 2 + ["5.0 0"] * 3 + ["6.0 0"] + ["7.0 0"]
    table = Path("runs/fake-table-deaths/table.md").read_text()
    assert "failed: ValueError: no <such> thing" in table
    assert "failed: killed (SIGKILL: by hand, or no memory left)" in table
    assert re.search(r"\| killed +\| +4\.00 ", table) and re.search(r"\| last +\| +7\.00 ", table)
    err = capsys.readouterr().err
    assert err.count("retrying") == 3 and "broken  0  failed  ValueError: no <such> thing" in err
    assert "&lt;such&gt;" in Path("runs/fake-table-deaths/report.html").read_text()


@pytest.mark.slow
def test_only_the_sources_of_a_measurement_make_it_stale(fake, ran):
    """A changed docstring, comment, row name or verdict in the same file does not count, a called function does."""
    run_study("fake/table", scale="quick", rows=("one",), seeds=1)
    rerun = lambda **options: run_study("fake/table", scale="quick", seeds=1, rows=("one",), **options)
    file = fake / "fake" / "table.py"
    text = file.read_text().replace('"late", "late"', '"late", "later"').replace("conclude({", "conclude({  # why\n")
    file.write_text(text.replace('"""Logs that it ran', '"""Logs the run'))
    assert rerun(stale="rerun")["rows"][0]["notes"] == "" and ran() == ["1.0 0"]
    file.write_text(file.read_text().replace("value + 0.5 * seed", "value + 0.25 * seed"))
    assert rerun()["rows"][0]["notes"] == "stale: the measurement measured changed" and ran() == ["1.0 0"]
    assert rerun(stale="rerun")["rows"][0]["notes"] == "" and ran() == ["1.0 0"] * 2
    assert rerun(stale="rerun")["rows"][0]["notes"] == "" and len(ran()) == 2


@pytest.mark.slow
def test_a_record_counts_as_finished_and_renders_elsewhere(fake, ran):
    run_study("fake/table", scale="quick", rows=("one",), record=True)
    recorded = fake / "fake/results/table/quick"
    assert len(records.read(recorded)) == 2
    assert (recorded / "table.md").read_text() == (RUN / "table.md").read_text()
    assert not (RUN / "verdicts.md").exists()  # one row measures no case of a claim
    elsewhere = run_study("fake/table", scale="quick", workdir=Path("elsewhere"), render=True)
    assert len(ran()) == 2 and not Path("elsewhere/trials").exists()
    assert [row["notes"] for row in elsewhere["rows"]] == ["", "not run"]
    run_study("fake/table", scale="quick", workdir=Path("elsewhere"))
    assert ran() == ["1.0 0", "1.0 1", "2.0 0", "2.0 1"]
    for _ in range(2):
        run_study("fake/table", scale="quick", rows=("one",), workdir=Path("anew"), ignore_records=True)
        assert ran() == sorted(["1.0 0", "1.0 1"] * 2 + ["2.0 0", "2.0 1"])


SIBLING = '''"""Another table of the same paper."""

from .shared import COLUMNS, second
from attention_research.studies import Scale, Study, measure

STUDY = Study(rows=(second("twin"),), scales={"quick": Scale(seeds=2)}, columns=COLUMNS)
'''
SHARED = '''"""What the paper's tables share: no study."""

import os

from attention_research.studies import Row, measure
from attention_research.studies.columns import Column, fixed
from attention_research.training import environment

environment.describe = lambda: {"git_revision": "0123abc", "backend": "none"}
COLUMNS = (Column("measure.value", "value", fixed(2)),)

def measured(*, value, seed):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(f"{value} {seed}\\n")
    return {"value": value + 0.5 * seed}

def second(id):
    """The row under that id."""
    return Row(id, "the twin", settings={"value": 9.0}, stages=(measure(measured),))
'''


@pytest.mark.slow
def test_tables_share_rows_by_name_and_trials_by_their_records(fake, ran):
    (fake / "fake/shared.py").write_text(SHARED)
    (fake / "fake/sibling.py").write_text(SIBLING)
    (fake / "fake/cousin.py").write_text(SIBLING.replace("twin", "cousin"))
    assert set(find_studies()) == {"fake/table", "fake/sibling", "fake/cousin"}
    run_study("fake/sibling", scale="quick", record=True)
    assert ran() == ["9.0 0", "9.0 1"]
    found = run_study("fake/cousin", scale="quick", workdir=Path("elsewhere"), record=True)
    assert ran() == ["9.0 0", "9.0 1"] and found["finished"] == 2
    assert found["rows"][0]["id"] == "cousin" and found["rows"][0]["cells"]["measure.value"]["values"] == [9.0, 9.5]
    ours, theirs = (records.read(fake / f"fake/results/{one}/quick") for one in ("cousin", "sibling"))
    assert ours == theirs and len(ours) == 2
    (fake / "other").mkdir()
    (fake / "other/table.py").write_text(SIBLING.replace("from .shared", "from ..fake.shared"))
    assert run_study("other/table", scale="quick")["finished"] == 2 and len(ran()) == 2
    run_study("fake/cousin", scale="quick", workdir=Path("anew"), ignore_records=True)
    assert len(ran()) == 4


@pytest.mark.slow
def test_claims_are_judged_from_cpu_on(fake):
    cpu = {one["id"]: one for one in run_study("fake/table", scale="cpu", rows=("one", "two"))["verdicts"]}
    assert set(cpu) == {"one-below-two", "never-tested"}
    assert cpu["one-below-two"]["status"] == "did not hold" and cpu["never-tested"]["status"] == "not tested"
    because = "value: value 1.25 (one) against 2.25 (two) over 2 seeds (p = 0.053), not clear"
    assert cpu["one-below-two"]["because"] == because
    said = Path("runs/fake-table-cpu/verdicts.md").read_text()
    told = "> One is <below> two.\n\nMeasured: the value.\n\nNo trained model is needed.\n\n"
    assert f"## one-below-two: did not hold\n\n{told}| case " in said
    line = "| value | – not shown | value 1.25 (one) against 2.25 (two) over 2 seeds (p = 0.053) |"
    assert line in re.sub(" +", " ", said)
    assert "## never-tested: not tested" in said and "another" not in said


SIGNALS = {number.name: number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)}


@pytest.mark.slow
@pytest.mark.parametrize("number", fast_are(["SIGTERM"], SIGNALS))
def test_a_stopped_study_leaves_no_worker(fake, ran, number):
    program = (
        "import sys\n"
        "from attention_research.cli import main\n"
        "sys.exit(main(['reproduce', 'experiments/fake/table.py', '--scale=sleep', '--rows=asleep']))"
    )
    listens = lambda: signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # background jobs of a shell ignore the signal, and so do their children
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, preexec_fn=listens)
    deadline = time.monotonic() + 300
    while not ran() and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = int(ran()[0])
    process.send_signal(number)
    err = process.communicate(timeout=120)[1]
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        return
    stopped = f"{number.name}: stopped; the same command continues from runs/experiments-fake-table-sleep"
    assert process.returncode == 128 + number and err.strip().splitlines()[-1].endswith(stopped)


def test_a_folder_in_use_refuses_a_second_process(fake, ran):
    with locked(RUN), pytest.raises(RunError, match="runs/fake-table-quick: another process uses this folder"):
        run_study("fake/table", scale="quick")
    assert ran() == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"study": "fake/tabel"}, "study 'fake/tabel': no such study; did you mean fake/table?"),
        ({"scale": "quik"}, "scale 'quik': fake/table has no such scale; did you mean quick?"),
        ({"rows": ("tow",)}, "row 'tow': fake/table has no such row at quick; did you mean two?"),
        ({"rows": ("late",)}, "row 'late' of fake/table is run at cpu, not at quick"),
        ({"seeds": 0}, "seeds: expected a whole number of at least 1, got 0"),
        ({"runner": "sun"}, "--runner=sun: no such runner; there are local, ray, slurm"),
        ({"machines": {"address": "x:1"}}, "--address: the runner local has no such setting; it has jobs"),
        ({"stale": "maybe"}, "stale: 'maybe' is neither keep nor rerun"),
    ],
)
def test_wrong_arguments_give_one_line_before_anything_starts(fake, ran, arguments, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        run_study(**{"study": "fake/table", "scale": "quick", **arguments})
    assert not Path("runs").exists() and ran() == []


def test_studies_are_found_by_their_path_without_running_them(fake):
    (fake / "fake/table.py").write_text('"""Title of it.\n\nMore."""\n\nSTUDY = explode()\n')
    assert find_studies(fake) == {"fake/table": "Title of it."}


def test_a_study_knows_its_name_and_title(fake):
    study = load_study("fake/table", fake)
    assert (study.name, study.slug) == ("fake/table", "fake-table")
    assert study.title == "A fake study with <b>markup</b> & more."

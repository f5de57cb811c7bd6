"""The page of a recorded table depends only on its record, byte for byte, whatever the work folder contains."""

import json
import threading
from pathlib import Path

import pytest
from results_of import page_of_the_record

from attention_research.config import ConfigError
from attention_research.studies import figures, fingerprints, load_study, records, run_study, table_record
from attention_research.studies.rewriting import judge_again, write_again
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import plan
from attention_research.training import workdir as workdirs

RUN = Path("runs/fake-table-quick")
TWIN = '''"""A second table with one of the first one's rows."""

from .table import STUDY as FIRST, measured
from attention_research.studies import Row, Scale, Study, measure

ROWS = (*FIRST.rows[:2], Row("three", "three", settings={"value": 3.0}))
STUDY = Study(rows=ROWS, scales={"quick": Scale(seeds=2)}, stages=(measure(measured),), columns=FIRST.columns)
'''


@pytest.fixture
def table(fake, monkeypatch):
    """table(study) -> its planned trials, those of "one" finished in its work folder, and the folder."""
    monkeypatch.setattr(figures, "draw", lambda found, folder: [])

    def made(study="fake/table"):
        loaded = load_study(study, fake)
        trials = plan(loaded, "quick", loaded.rows_at("quick"), 2, "x")
        folder = Folder(Path(f"runs/{loaded.slug}-quick"))
        for trial in trials:
            if trial.row == "one":
                finish(folder.prepare(trial, rerun_stale=False), trial)
        return trials, folder

    return made


def finish(folder, trial, value=None, **more):
    """Writes a trial's result."""
    told = {name: getattr(trial, name) for name in ("id", "row", "seed", "point", "fingerprint")}
    stages = {"measure": {"value": trial.seed if value is None else value}}
    told |= {"program": fingerprints.measurements(trial.stages), "stages": stages, "diverged": None, "curves": {}}
    (folder / "result.json").write_text(json.dumps({**told, "environment": {}, "cores": 1, "seconds": 1.0, **more}))


def holds(study="fake/table"):
    """Checks that the recorded page is the one computed from the record, and returns the page."""
    page = Path(f"experiments/{study.replace('/', '/results/')}/quick/table.md").read_text(encoding="utf-8")
    assert page == page_of_the_record(study, "quick", Path("alone") / study)
    return page


def begun(folder, trial):
    """Writes the folder of a training that was stopped after some steps."""
    lines = [{"step": step, "split": "train", "loss": 3.0 / step} for step in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "stages").mkdir()
    (folder / "stages/0.json").write_text('{"value": 7.0}')


def failed(folder, trial):
    (folder / "error.txt").write_text("no memory left\n")


def partly_failed(folder, trial):
    finish(folder, trial, failed={"topic": "no memory left"})


@pytest.mark.parametrize("left", [begun, failed, partly_failed])
def test_a_trial_that_is_not_finished_is_not_run_in_the_record(table, left):
    trials, folder = table()
    for trial in trials[2:]:
        left(folder.prepare(trial, rerun_stale=False), trial)
    run_study("fake/table", scale="quick", render=True, record=True)
    page = holds()
    assert ": not run\n" in page and "not finished" not in page and "memory" not in page
    assert ": not run\n" not in (RUN / "table.md").read_text()  # the work folder's page says why
    assert len(records.read(Path("experiments/fake/results/table/quick"))) == 2


def test_other_options_than_those_of_the_record_change_nothing_in_it(table):
    trials, folder = table()
    run_study("fake/table", scale="quick", render=True, record=True, seeds=1)
    assert "0.50 ± 0.71" in holds()
    for trial in trials[2:]:
        finish(folder.prepare(trial, rerun_stale=False), trial, 4.0)
    run_study("fake/table", scale="quick", render=True, record=True)
    complete = holds()
    finish(folder.trial(trials[0]), trials[0], 2.0)
    for trial in trials[2:]:
        (folder.trial(trial) / "result.json").unlink()
    run_study("fake/table", scale="quick", render=True, record=True, ignore_records=True, rows=("one",))
    assert complete != holds() and "4.00 ± 0.00" in holds()
    with pytest.raises(ConfigError, match="^seeds: expected at most 2, those of a record at quick, got 3$"):
        run_study("fake/table", scale="quick", record=True, seeds=3)


def test_verdicts_are_drawn_anew_below_the_same_table(table):
    trials, folder = table()
    for trial in trials[2:]:
        finish(folder.prepare(trial, rerun_stale=False), trial, 4.0)
    run_study("fake/table", scale="quick", render=True, record=True)
    record = Path("experiments/fake/results/table/quick")
    page = (record / "table.md").read_text(encoding="utf-8")
    assert not judge_again(record) and (record / "table.md").read_text(encoding="utf-8") == page == holds()
    mine, below = page.split("## fake/table", 1)
    changed = mine.replace("one \\| first", "a note that another version wrote")
    assert changed != mine
    (record / "table.md").write_text(f"{changed}## fake/table of an earlier rule\n\n### one-below-two: held\n")
    assert judge_again(record)
    assert (record / "table.md").read_text(encoding="utf-8") == f"{changed}## fake/table{below}"
    assert write_again(record) and (record / "table.md").read_text(encoding="utf-8") == page
    assert not write_again(record)


def test_a_missing_trial_is_filled_by_another_tables_record(table, fake):
    (fake / "fake/twin.py").write_text(TWIN)
    trials, folder = table()
    run_study("fake/table", scale="quick", render=True, record=True)
    others, twin = table("fake/twin")
    for trial in others[2:]:
        finish(twin.prepare(trial, rerun_stale=False), trial, 5.0)
    run_study("fake/twin", scale="quick", render=True, record=True)
    run_study("fake/table", scale="quick", render=True, record="new")
    assert "5.00 ± 0.00" in holds() and "5.00 ± 0.00" in holds("fake/twin")


def test_two_recorders_of_one_table_lose_no_trial(table, monkeypatch):
    """The second begins to write from another work folder while the first draws."""
    trials, folder = table()
    record, twin, others = Path("experiments/fake/results/table/quick"), Folder(Path("runs/twin")), []
    for trial in trials[2:]:
        finish(twin.prepare(trial, rerun_stale=False), trial)
    study, draw = load_study("fake/table"), table_record.draw
    write = lambda own: table_record.write(study, "quick", trials, Folder(own.workdir, record), lambda line: None)

    def draw_slowly(found, place):
        if not others:
            others.append(threading.Thread(target=write, args=(twin,)))
            others[0].start()
            others[0].join(0.5)
        return draw(found, place)

    monkeypatch.setattr(table_record, "draw", draw_slowly)
    write(folder)
    others[0].join()
    assert records.read(record).keys() == {trial.id for trial in trials}


def test_a_record_that_was_cut_off_while_it_was_written_is_written_again(table, monkeypatch):
    trials, folder = table()
    run_study("fake/table", scale="quick", render=True, record=True)
    before, write, rounds = holds(), workdirs.write_text, 0
    for trial in trials[2:]:
        finish(folder.prepare(trial, rerun_stale=False), trial, 6.0)
    for last in range(9):
        written = []

        def cut(path, text, last=last, written=written):
            if "experiments" in path.parts:
                if len(written) == last:
                    raise KeyboardInterrupt
                written.append(path)
            write(path, text)

        for module in ("records", "table_record"):
            monkeypatch.setattr(f"attention_research.studies.{module}.write_text", cut)
        try:
            run_study("fake/table", scale="quick", render=True, record="new")
            break
        except KeyboardInterrupt:
            rounds += 1
    assert rounds == 2 and holds() != before and "6.00 ± 0.00" in holds()

"""Writes the record of a table at a scale: its trials, and the table and figures that follow from these trials.

    python -m attention_research.studies.table_record                        rewrites legends and verdicts of all tables
    python -m attention_research.studies.table_record figures [STUDY ...]    draws the recorded figures again

A record takes only finished trials from a work folder, not failed or unfinished ones. Therefore the same table can be
written again from the record alone, byte for byte.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from attention_research import bundled
from attention_research.studies import figures, floors, footnotes, records, results, verdict_text, verdicts
from attention_research.studies.bounds import bounded
from attention_research.studies.loading import study_of_record
from attention_research.studies.study import Study
from attention_research.studies.trials import Folder, Recorded, Trial
from attention_research.training.environment import fingerprint
from attention_research.training.workdir import write_text


def write(study: Study, scale: str, trials: list[Trial], folder: Folder, report: Callable[[str], None]) -> None:
    """Adds finished trials to the record beside the study, and rewrites its table and figures.

    `trials` are all planned trials of the scale. The trials are written last, so that they count as not recorded after
    an interruption.
    """
    assert folder.recorded is not None
    found = (folder.result(trial) for trial in trials)
    done = [bounded(result) for result in found if result is not None and "failed" not in result]
    if not done:
        return  # without finished trials there is no record
    record, text = folder.recorded, records.text(folder.recorded, done)
    alone = results.collect(study, scale, trials, Recorded(record, records.parse(text)), report)
    _draw(alone, record)
    write_text(record / "table.md", page(alone))
    records.write(record, text)


def _draw(found: results.Results, record: Path) -> bool:
    """Replaces the figures of a record. Returns whether they changed."""
    read = lambda: {path.name: path.read_bytes() for path in (record / "figures").glob("*.png")}
    before = read()
    with TemporaryDirectory() as place:
        pictures = figures.worth_recording(figures.draw(found, Path(place)))
        (record / "figures").mkdir(parents=True, exist_ok=True)
        for name in before:
            (record / "figures" / name).unlink()
        for picture in pictures:
            shutil.copyfile(picture.path, record / "figures" / picture.path.name)
    return read() != before


def page(found: results.Results) -> str:
    """The text of table.md: the table, and the verdicts below it."""
    return "\n".join([results.text(found), *_verdicts(found)])


def _verdicts(found: results.Results) -> list[str]:
    judged = verdicts.judge(found)
    return [verdict_text.below_a_table(verdict_text.markdown(found.study.name, found.scale, judged))] if judged else []


def found_in(record: Path) -> results.Results:
    """What a record alone holds, without a check of whether its trials are stale."""
    study, scale = study_of_record(record)
    trials = floors.plan_with_floors(study, scale, study.rows_at(scale), None, fingerprint())
    there = Folder(record, record)  # reads records only; a trial may be in the record of another table
    entries = tuple(results.Entry(trial, there.result(trial), reason=there.why_missing(trial)) for trial in trials)
    shown = {trial.row for trial in trials} | results.published(study, scale).keys()
    rows = tuple(row for row in study.rows if row.id in shown)
    below = tuple(one for one in entries if one.trial.row == floors.FLOORS)
    trained = tuple(one for one in entries if one.trial.row != floors.FLOORS)
    return results.Results(study, scale, rows, trained, floors=below)


def judge_again(record: Path) -> bool:
    """Rewrites the legend and the verdicts below a recorded table, by the present rules. Returns whether they changed.

    The table itself and the figures stay as they are.
    """
    found = found_in(record)
    before = (record / "table.md").read_text(encoding="utf-8")
    table = before[: footnotes.end_of_table(before)]
    after = "\n".join([table, results.legend(found), *_verdicts(found)])
    write_text(record / "table.md", after)
    return after != before


def draw_again(record: Path) -> bool:
    """Draws the figures of a record again from its trials, without training. Returns whether they changed."""
    return _draw(found_in(record), record)


if __name__ == "__main__":
    asked, *only = sys.argv[1:] or [""]
    again = draw_again if asked == "figures" else judge_again
    for one in records.recorded(bundled.folder("experiments")):
        if not only or study_of_record(one)[0].name in only:
            print("changed" if again(one) else "as before", one, flush=True)

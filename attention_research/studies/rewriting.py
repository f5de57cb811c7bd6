"""Writes recorded tables again from their trials, without training, after a change of what is shown.

    python -m attention_research.studies.rewriting tables [STUDY ...]      whole tables, with stale trials marked
    python -m attention_research.studies.rewriting verdicts [STUDY ...]    only the legend and the verdicts
    python -m attention_research.studies.rewriting figures [STUDY ...]     the recorded figures

Without names all recorded tables are written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attention_research import bundled
from attention_research.studies import floors, footnotes, records, results, table_record, tables
from attention_research.studies.loading import study_of_record
from attention_research.studies.study import Study
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import Trial
from attention_research.training.environment import fingerprint
from attention_research.training.workdir import write_text


def _planned(record: Path) -> tuple[Study, str, list[Trial]]:
    study, scale = study_of_record(record)
    return study, scale, floors.plan_with_floors(study, scale, study.rows_at(scale), None, fingerprint())


def found_in(record: Path) -> results.Results:
    """What a record alone holds, without a check of whether its trials are stale."""
    study, scale, trials = _planned(record)
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
    after = "\n".join([table, tables.legend(found), *table_record.verdicts_of(found)])
    write_text(record / "table.md", after)
    return after != before


def draw_again(record: Path) -> bool:
    """Draws the figures of a record again from its trials, without training. Returns whether they changed."""
    return table_record.draw(found_in(record), record)


def write_again(record: Path) -> bool:
    """Writes table.md again and marks trials that are stale. Returns whether it changed. The figures stay."""
    study, scale, trials = _planned(record)
    found = results.collect(study, scale, trials, Folder(record, record), lambda line: None)
    before, after = (record / "table.md").read_text(encoding="utf-8"), table_record.page(found)
    write_text(record / "table.md", after)
    return after != before


WAYS = {"tables": write_again, "verdicts": judge_again, "figures": draw_again}

if __name__ == "__main__":
    way, *only = sys.argv[1:] or [""]
    if way not in WAYS:
        sys.exit(f"what to write: expected one of {', '.join(WAYS)}, got {way!r}")
    for one in records.recorded(bundled.folder("experiments")):
        if not only or study_of_record(one)[0].name in only:
            print("changed" if WAYS[way](one) else "as before", one, flush=True)

"""Writes the record of a table at a scale: its trials, and the table and figures that follow from these trials.

A record takes only finished trials from a work folder, not failed or unfinished ones. Therefore the same table can be
written again from the record alone, byte for byte (`studies.rewriting`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from attention_research.data import storage
from attention_research.studies import figures, records, results, tables, verdict_text, verdicts
from attention_research.studies.bounds import bounded
from attention_research.studies.study import Study, digest
from attention_research.studies.trial_folders import Folder, Recorded
from attention_research.studies.trials import Trial
from attention_research.training.workdir import replacing, write_text, writing


def write(study: Study, scale: str, trials: list[Trial], folder: Folder, report: Callable[[str], None]) -> None:
    """Adds finished trials to the record beside the study, and rewrites its table and figures.

    `trials` are all planned trials of the scale. The trials are written last, so that they count as not recorded after
    an interruption. Of several processes that record the same table, one writes after the other.
    """
    assert folder.recorded is not None
    found = (folder.result(trial) for trial in trials)
    done = [bounded(result) for result in found if result is not None and "failed" not in result]
    if not done:
        return  # without finished trials there is no record
    record = folder.recorded
    with storage.locked(f"record-{digest(str(record.resolve()))}"):
        text = records.text(record, done)
        alone = results.collect(study, scale, trials, Recorded(record, records.parse(text)), report)
        draw(alone, record)
        write_text(record / "table.md", page(alone))
        records.write(record, text)


def draw(found: results.Results, record: Path) -> bool:
    """Replaces the figures of a record. Returns whether they changed. A figure that cannot be written stays as it
    was."""
    there = record / "figures"
    read = lambda: {path.name: path.read_bytes() for path in there.glob("*.png")}
    before = read()
    with TemporaryDirectory() as place:
        pictures = [one.path for one in figures.worth_recording(figures.draw(found, Path(place)))]
        with writing(there):
            there.mkdir(parents=True, exist_ok=True)
        for picture in pictures:
            with replacing(there / picture.name) as temporary:
                shutil.copyfile(picture, temporary)
        for name in before.keys() - {picture.name for picture in pictures}:
            (there / name).unlink()
    return read() != before


def page(found: results.Results) -> str:
    """The text of table.md: the table, and the verdicts below it."""
    return "\n".join([tables.text(found), *verdicts_of(found)])


def verdicts_of(found: results.Results) -> list[str]:
    """The text below a table: nothing, or the claims with their verdicts."""
    shown = [one for one in verdicts.judge(found) if one.shown]
    return [verdict_text.below_a_table(verdict_text.markdown(found.study.name, found.scale, shown))] if shown else []

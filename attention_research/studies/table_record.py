"""The record of a table at a scale: its trials, and the page and the pictures that these trials alone give.

A record takes only finished trials from a work folder. Trials there that have failed or have not ended are left out, so
that anyone who has the record can draw the same page from it, byte for byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from attention_research.studies import figures, records, results, verdicts
from attention_research.studies.bounds import bounded
from attention_research.studies.study import Study
from attention_research.studies.trials import Folder, Recorded, Trial
from attention_research.training.workdir import write_text


def write(study: Study, scale: str, trials: list[Trial], folder: Folder, report: Callable[[str], None]) -> None:
    """Add the finished ones of `trials`, all that the scale plans, to the record beside the study, and draw it anew.

    The trials are written last: where this was cut off, they still count as not recorded.
    """
    assert folder.recorded is not None
    found = (folder.result(trial) for trial in trials)
    done = [bounded(result) for result in found if result is not None and "failed" not in result]
    if not done:
        return  # an empty table is no record
    record, text = folder.recorded, records.text(folder.recorded, done)
    alone = results.collect(study, scale, trials, Recorded(record, records.parse(text)), report)
    with TemporaryDirectory() as place:
        pictures = figures.worth_recording(figures.draw(alone, Path(place)))
        (record / "figures").mkdir(parents=True, exist_ok=True)
        for before in (record / "figures").glob("*.png"):
            before.unlink()
        for picture in pictures:
            shutil.copyfile(picture.path, record / "figures" / picture.path.name)
    write_text(record / "table.md", page(alone))
    records.write(record, text)


def page(found: results.Results) -> str:
    """The table and, below it, the verdicts."""
    judged = verdicts.judge(found)
    said = [verdicts.below_a_table(verdicts.markdown(found.study.name, found.scale, judged))] if judged else []
    return "\n".join([results.text(found), *said])

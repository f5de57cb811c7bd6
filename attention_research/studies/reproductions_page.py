"""Writes docs/reproductions.md: published numbers of the studies that train models of the published size, and ours.

    python -m attention_research.studies.reproductions_page > docs/reproductions.md

Numbers are those of the records at scale `paper`. Nothing is trained here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from attention_research import bundled
from attention_research.studies import records
from attention_research.studies.columns import significant
from attention_research.studies.footnotes import NOTES, cell, markdown, parse
from attention_research.studies.reproductions import (
    INSIDE,
    OUTSIDE,
    SCALE,
    UNRECORDED,
    UNRUN,
    Reproduced,
    cells,
    studies,
)
from attention_research.studies.results import Results
from attention_research.studies.rewriting import found_in
from attention_research.studies.study import Study

#: The page counts the cells with a difference up to this share of the published number.
NEAR = 0.05
#: How the notes of a recorded table begin that this page repeats: they limit what a number shows.
LIMITS = ("stale", "no better than a baseline", "has not learned", "diverged")
INTRODUCTION = f"""\
This page compares the numbers of papers with ours. Its studies train models of the published size, on the published
data or on data from the published generator. Each row of the tables below is one published number. The columns are:

- *ours*: the mean of our runs, and in parentheses the number of seeds.
- *ours / published*: our mean divided by the published number.
- *interval*: where one more run of ours would lie with a probability of 95% (the prediction interval of the normal
  distribution). It is wide for three seeds. One seed, or a model without random numbers, gives no interval.
- *published is*: "{INSIDE}" if the published number lies in this interval, or at most half a unit of its last digit
  outside. Such a number could come from another seed of ours. Without an interval, the published number must equal
  ours, up to half a unit of its last digit. Otherwise it is "{OUTSIDE}". "{UNRECORDED}": the study can train the row,
  but no result is recorded. "{UNRUN}": the study does not train the row.
- *notes*: what differs from the published system; whether the program has changed since our number was recorded
  ("stale"); and whether our model has learned the task. "No better" and "has not learned" name the baseline
  that our model does not beat ([baselines and thresholds](studies.md#when-a-claim-may-be-judged)).

`python -m attention_research.studies.reproductions_page` writes this page."""
OUTCOMES = (INSIDE, OUTSIDE, UNRECORDED, UNRUN)


def limits(study: Study) -> dict[str, str]:
    """Name of a row -> the notes of the recorded table that limit what its numbers show, such as "stale"."""
    record = study.record(SCALE)
    if record is None or not (record / "table.md").exists():
        return {}
    titles, *lines = parse((record / "table.md").read_text(encoding="utf-8"))
    if NOTES not in titles:
        return {}
    notes = {line[0]: line[titles.index(NOTES)].split("; ") for line in lines}
    return {row: cell(note for note in found if note.startswith(LIMITS)) for row, found in notes.items()}


def of_study(study: Study) -> list[Reproduced]:
    """The published numbers of a study with the numbers of its record, if there is one."""
    record = study.record(SCALE)
    there = record is not None and (record / records.FILE).exists()
    return cells(found_in(record) if there and record is not None else Results(study, SCALE, study.rows, ()))


def reproduced(experiments: Path) -> dict[str, tuple[Study, list[Reproduced]]]:
    """Name -> the study and its published numbers."""
    return {study.name: (study, of_study(study)) for study in studies(experiments)}


def sentence(found: list[Reproduced]) -> str:
    """How many published numbers have a counterpart here, and how many of them lie inside. README.md says the same."""
    counts = Counter(cell.outcome for cell in found)
    return (
        f"{counts[INSIDE] + counts[OUTSIDE]} published numbers have a recorded counterpart. {counts[INSIDE]} of them "
        "lie in the 95% prediction interval for one more run here, or equal our number if there is only one seed."
    )


def near(found: list[Reproduced]) -> int:
    """The number of cells from which ours differs by at most `NEAR`."""
    return sum(cell.ratio is not None and abs(cell.ratio - 1) <= NEAR for cell in found)


def page(experiments: Path) -> str:
    """The text of docs/reproductions.md."""
    found = reproduced(experiments)
    every = [cell for _, of in found.values() for cell in of]
    limited = sum(bool(one.ours and limits(study).get(one.row)) for study, of in found.values() for one in of)
    lines = [f"| study | {' | '.join(OUTCOMES)} |", f"| --- |{' ---: |' * len(OUTCOMES)}"]
    for name, (_, of) in found.items():
        counts = Counter(cell.outcome for cell in of)
        link = f"[{name}](#{name.replace('/', '')})"
        lines.append(f"| {link} | {' | '.join(str(counts[outcome] or '') for outcome in OUTCOMES)} |")
    parts = [
        "# Published numbers and ours, at the published sizes",
        INTRODUCTION,
        f"{sentence(every)} {near(every)} of our numbers differ by at most {100 * NEAR:g}% from the published ones. "
        f"{limited} have a note that limits what they show: the program has changed since, or the model has not "
        "learned its task.",
        "\n".join(lines),
        *(_section(study, of) for study, of in found.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _section(study: Study, found: list[Reproduced]) -> str:
    lines = [["row", "what", "published", "ours", "ours / published", "interval", "published is", NOTES]]
    limited = limits(study)
    columns = {what: column for column in study.columns for key, what in study.compared.items() if key == column.key}
    for one in found:
        ends = [columns[one.what].text(end) for end in one.interval] if one.ours else []
        notes = [one.differs, limited.get(one.row, "") if one.ours else ""]
        lines.append([
            one.row,
            one.what,
            one.printed,
            f"{one.text} ({len(one.ours)})" if one.ours else "",
            "" if one.ratio is None else significant(3)(one.ratio),
            " to ".join(ends) if len(one.ours) > 1 else "",
            one.outcome,
            "; ".join(filter(None, notes)),
        ])  # fmt: skip
    command = f"`attention-research reproduce {study.name} --scale={SCALE}`"
    said = f"{study.title} {command}"
    return f"## {study.name}\n\n{said}\n\n{markdown(lines, left=(0, 1, 6))}".rstrip()


if __name__ == "__main__":
    print(page(bundled.folder("experiments")), end="")

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
from attention_research.studies.footnotes import NOTES, markdown
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
OUTCOMES = (INSIDE, OUTSIDE, UNRECORDED, UNRUN)


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
    lines = [f"| study | {' | '.join(OUTCOMES)} |", f"| --- |{' ---: |' * len(OUTCOMES)}"]
    for name, (_, of) in found.items():
        counts = Counter(cell.outcome for cell in of)
        link = f"[{name}](#{name.replace('/', '')})"
        lines.append(f"| {link} | {' | '.join(str(counts[outcome] or '') for outcome in OUTCOMES)} |")
    parts = [
        "# Published numbers and ours, at the published sizes",
        "These studies train models of the published size, on the published data or on data from the published "
        "generator. A published number is inside if it could be another seed of ours: it lies in the 95% prediction "
        "interval for one more run here, give or take half a unit of its last digit. Three seeds give wide intervals. "
        "One seed, or a model by counts, gives none, and the published number must equal ours. The notes say what "
        "differs from the published system. "
        "`python -m attention_research.studies.reproductions_page` writes this page.",
        f"{sentence(every)} {near(every)} of our numbers differ by at most {100 * NEAR:g}% from the published ones.",
        "\n".join(lines),
        *(_section(study, of) for study, of in found.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _section(study: Study, found: list[Reproduced]) -> str:
    lines = [["row", "what", "published", "ours", "ours / published", "interval", "published is", NOTES]]
    columns = {what: column for column in study.columns for key, what in study.compared.items() if key == column.key}
    for cell in found:
        ends = [columns[cell.what].text(end) for end in cell.interval] if cell.ours else []
        lines.append([
            cell.row,
            cell.what,
            cell.printed,
            f"{cell.text} ({len(cell.ours)})" if cell.ours else "",
            "" if cell.ratio is None else significant(3)(cell.ratio),
            " to ".join(ends) if len(cell.ours) > 1 else "",
            cell.outcome,
            cell.differs,
        ])  # fmt: skip
    command = f"`attention-research reproduce {study.name} --scale={SCALE}`"
    said = f"{study.title} {command}. The number of seeds is in parentheses."
    return f"## {study.name}\n\n{said}\n\n{markdown(lines, left=(0, 1, 6))}".rstrip()


if __name__ == "__main__":
    print(page(bundled.folder("experiments")), end="")

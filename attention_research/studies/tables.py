"""Writes the results of a study: ``results.parquet``, ``table.csv`` and ``table.md``.

A cell is the mean over random seeds, with the sample standard deviation (n - 1) if the column shows it. A cell without
results is blank, and the row's note gives the reason. Notes also mark rows that are no better than a baseline, and
trials whose program has changed as stale. Records that are not comparable have no note, so that the table does not
depend on the version of JAX that renders it; `status --stale` and the page name them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.studies import floors, footnotes
from attention_research.studies.columns import PEAK_MEMORY, Column
from attention_research.studies.reference_line import with_reference
from attention_research.studies.results import DIFFERS, SOURCE, Entry, Results, published
from attention_research.training.workdir import replacing, write_text


def table(results: Results) -> list[list[str]]:
    """The table as texts. Its first line holds the titles: row, columns, published columns, seeds and notes.

    The notes of a row end with the source of its published numbers.

    The column of notes is left out if all notes are empty.
    """
    cells = published(results.study, results.scale)
    printed = list(dict.fromkeys(name for row in results.rows for name in cells.get(row.id, {})))
    printed = [name for name in printed if name not in (SOURCE, DIFFERS)]
    columns = [(column, point) for column in results.columns for point in _points(results, column)]
    titles = [c.title if p is None else f"{c.title} at {p:,}" for c, p in columns]
    lines = [["row", *titles, *(f"published {name}" for name in printed), "seeds", footnotes.NOTES]]
    for row in results.rows:
        done = len({entry.trial.seed for entry in results.of(row.id) if entry.result})
        texts = [results.cell(row.id, column, point).text for column, point in columns]
        paper = [cells.get(row.id, {}).get(name, "") for name in printed]
        source = cells.get(row.id, {}).get(SOURCE, "")
        notes = [*results.notes(row.id), f"published in {source}" if source else ""]
        lines.append([row.name, *texts, *paper, str(done), footnotes.cell(notes)])
    for name, numbers in floors.lines(results.floors):
        texts = [column.text(numbers[column.key]) if column.key in numbers else "" for column, _ in columns]
        if any(texts):
            lines.append([name, *texts, *("" for _ in printed), "", "floor: a baseline without a trained model"])
    empty = [
        i for i in range(len(lines[0])) if lines[0][i] == footnotes.NOTES and not any(line[i] for line in lines[1:])
    ]
    return [[text for i, text in enumerate(line) if i not in empty] for line in lines]


def _points(results: Results, column: Column) -> tuple[int | None, ...]:
    return results.points if column.at_points else (None,)


def flat(entry: Entry) -> dict[str, Any]:
    """One line of ``results.parquet``: the keys of a trial and every value of its stages under ``stage.name``."""
    trial, result = entry.trial, entry.result or {}
    line: dict[str, Any] = {name: getattr(trial, name) for name in ("id", "row", "name", "seed", "point")}
    line |= {"stale": entry.stale, "fingerprint": result.get("fingerprint"), "seconds": result.get("seconds")}
    for stage, numbers in result.get("stages", {}).items():
        line |= {f"{stage}.{k}": v for k, v in numbers.items() if isinstance(v, int | float | str | bool)}
    return line


def write(results: Results, workdir: Path) -> None:
    """Writes ``results.parquet``, ``table.csv`` and ``table.md`` into the study's folder."""
    import pyarrow
    import pyarrow.parquet

    lines = [flat(entry) for entry in results.entries if entry.result]
    names = list(dict.fromkeys(name for line in lines for name in line))
    columns = {name: _one_type([line.get(name) for line in lines]) for name in names}
    with replacing(workdir / "results.parquet") as temporary:
        pyarrow.parquet.write_table(pyarrow.table(columns), temporary)
    lines_of_csv = io.StringIO()
    csv.writer(lines_of_csv, lineterminator="\n").writerows(table(results))
    write_text(workdir / "table.csv", lines_of_csv.getvalue())
    write_text(workdir / "table.md", text(results))


def _one_type(values: list[Any]) -> list[Any]:
    """The values of a column with one type: all floats if a value is a float or an int beyond 64 bits."""
    if any(isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**63) for value in values):
        return [None if value is None else float(value) for value in values]
    return values


def text(results: Results) -> str:
    """The text of ``table.md``: title, table and legend."""
    title = f"# {results.study.name} · {results.scale}: {results.study.title}"
    return "\n".join([f"{title}\n", footnotes.markdown(table(results)), legend(results)])


def legend(results: Results) -> str:
    """The legend of the table: the seeds of its means, the cores of each trial, and notes about how trials were run."""
    size = results.study.scale(results.scale)
    done = [entry.result for entry in results.entries if entry.result]
    cores = sorted({result["cores"] for result in done})
    said = [f"Mean ± sample standard deviation over {results.seeds} random seeds."] if results.seeds > 1 else []
    seeds = sorted({entry.trial.seed for entry in results.entries})
    if seeds and seeds != list(range(results.seeds)):
        said.append(f"training.seed {', '.join(map(str, seeds))}.")
    if done:
        had = f"{' or '.join(map(str, cores))} core{'' if cores == [1] else 's'}"
        said.append(f"Each trial had {had} in a process of its own.")
    if any(column.key == PEAK_MEMORY.key for column in results.columns):
        said.append("Peak memory is the resident size of that process while training, Python and JAX included.")
    said += _provenance(done, len(results.entries), speeds=results.shows_training)
    said += [*results.study.notes, *([size.note] if size.note else [])]
    said += [line] if (line := with_reference(results)) else []
    if results.study.compared:
        from attention_research.studies.significance import agreement  # imports NumPy, which planning does not need

        said += agreement(results, published(results.study, results.scale))
    return "\n".join(said) + "\n"


def _provenance(done: Sequence[Mapping[str, Any]], planned: int, *, speeds: bool) -> list[str]:
    """Notes about trials that were recorded from a modified tree, or that ran at a low priority."""
    environments = [result.get("environment", {}) for result in done]
    modified = [one["modified"] for one in environments if one.get("modified")]
    said = []
    if modified:
        files = ", ".join(sorted({file for files in modified for file in files}))
        said.append(f"{len(modified)} of {planned} trials were recorded from a modified tree ({files}).")
    low = sum("nice" in one for one in environments)
    if speeds and low:
        said.append(f"{low} of {planned} trials ran at a low priority: other programs may have slowed them down.")
    return said

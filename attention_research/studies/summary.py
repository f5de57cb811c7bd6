"""The summary of a study: the files in its folder, the JSON document, and what the command prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import RunError
from attention_research.studies import figures, floors, footnotes, report, tables, verdict_text, verdicts
from attention_research.studies.results import Results
from attention_research.studies.study_folder import identity
from attention_research.training.workdir import json_text, write_text


def publish(found: Results, workdir: Path) -> dict[str, Any]:
    """Writes the table, verdicts, figures and page into the study's folder. Returns the summary.

    Figures and verdicts that are there are removed first: another study in this folder may have others.
    """
    for path in (*(workdir / "figures").glob("*.png"), workdir / "verdicts.md"):
        path.unlink(missing_ok=True)
    tables.write(found, workdir)
    drawn = figures.draw(found, workdir / "figures")
    judged = verdicts.judge(found)
    name, argument = found.study.name, found.study.argument
    made = [f"reproduce {argument} --scale={found.scale}", f"inspect --study={argument} --scale={found.scale} --json"]
    commands = [f"attention-research {one}" for one in made] if found.study.path else []
    folders = report.trial_folders(found, workdir)
    shown = [one for one in judged if one.shown]
    report.write(workdir / "report.html", report.page(found, shown, drawn, commands, folders))
    if shown:
        write_text(workdir / "verdicts.md", verdict_text.markdown(name, found.scale, shown))
    return {
        **identity(found.study, found.scale),
        "workdir": str(workdir),
        "trials": len(found.entries),
        "finished": sum(entry.result is not None for entry in found.entries),
        "samples": found.samples(),
        "trial_folders": folders,
        "pages": [str(path) for entry in found.entries for path in _pages(workdir / "trials" / entry.trial.id)],
        "floors": {name: dict(numbers) for name, numbers in floors.lines(found.floors)},
        "rows": [_row_json(found, row.id, row.name) for row in found.rows],
        "verdicts": [one.to_json() for one in judged],
        "table": str(workdir / "table.md"),
        "figures": [str(figure.path) for figure in drawn],
        "report": str(workdir / "report.html"),
    }


def _pages(folder: Path) -> list[Path]:
    """The HTML pages that a measurement wrote in a trial's folder."""
    return sorted(folder.glob("*.html"))


def _row_json(found: Results, row: str, name: str) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for column in found.columns:
        for point in found.points if column.at_points else (None,):
            cell = found.cell(row, column, point)
            key = column.key if point is None else f"{column.key}@{point}"
            cells[key] = {"mean": cell.mean, "deviation": cell.deviation, "values": list(cell.values)}
    return {"row": name, "id": row, "cells": cells, "notes": footnotes.cell(found.notes(row))}


def answer(summary: Mapping[str, Any], *, as_json: bool = False) -> int:
    """Prints the table of a summary and the paths of its files; for a search, also the best row's settings as options.

    Raises RunError if a trial failed.
    """
    if as_json:
        print(json_text(summary, indent=1))
    else:
        print(Path(summary["table"]).read_text(encoding="utf-8"))
        shown = [one for one in summary["verdicts"] if one["shown"]]
        for one in shown:
            print(f"{one['id']}: {one['status']} ({one['brief']})")
        if summary["samples"]:
            print("\n".join(_samples(*next(iter(summary["samples"].items())))))
        if summary["pages"]:
            print(f"attention {summary['pages'][0]}")
        table, pictures = Path(summary["table"]), f" · figure {summary['figures'][0]}" if summary["figures"] else ""
        verdicts = f" · verdicts {table.with_name('verdicts.md')}" if shown else ""
        if summary["trial_folders"]:
            listed = shlex.join(["attention-research", "status", summary["workdir"]])
            print(f"trials {summary['workdir']}/trials · their rows and folders: {listed}")
        print(f"table {table}{verdicts}{pictures} · page {summary['report']}", flush=True)
        if summary.get("best"):
            print(summary["best"]["options"], flush=True)
    if summary["failed"]:
        first, *others = dict.fromkeys(one["error"] for one in summary["failed"])
        more = f" (and {len(others)} other error{'s' if len(others) > 1 else ''})" if others else ""
        count = f"{len(summary['failed'])} of {summary['trials']} trials failed"
        raise RunError(f"{count}: {first}{more}; the same command runs them again")
    return 0


def _samples(row: str, samples: Sequence[Mapping[str, str]]) -> list[str]:
    """The sample outputs of a row, one line for each sample. The page shows those of all rows."""
    said = [f"{one['source']} -> {one['translation']} (reference: {_one(one['reference'])})" for one in samples]
    return [f"\nwhat the row {row!r} writes", *said, ""]


def _one(reference: str | Sequence[str]) -> str:
    return reference if isinstance(reference, str) else " | ".join(reference)

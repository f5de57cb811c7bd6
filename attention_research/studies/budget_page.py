"""The output of `budget`: learning rates, lengths, hours, and the overrides to write into the study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.studies.budget import EVALUATIONS
from attention_research.studies.footnotes import markdown_table

_SPEEDS = {"measured": "", "recorded": "speed from the records", "family": "speed of {family}"}
_DIVERGED = "diverged"


def page(found: Mapping[str, Any]) -> str:
    """The text for a document of `budgeting.find_budget`."""
    lines = [f"{found['study']} · {found['scale']} · budget by validation loss; the test split was not evaluated", ""]
    for part in found["budgets"]:
        lines += [*_rates(part), "", *_lengths(part), ""]
    lines += [*_hours(found), ""]
    for part in found["budgets"]:
        lines += [*_to_write(found, part), ""]
    return "\n".join([*lines, str(Path(found["workdir"]) / "budget.json")])


def _rates(part: Mapping[str, Any]) -> list[str]:
    rows = [["family", "learning rate", "x", "validation loss", "at step", "notes"]]
    for family in part["families"]:
        for one in family["rates"]:
            best = one["factor"] == family["best"]
            note = ("best, at the edge of what was tried" if family["edge"] else "best") if best else ""
            rows.append([family["row"], f"{one['rate']:g}", f"{one['factor']:g}", *_loss(one), note])
    lost = [family["row"] for family in part["families"] if family["best"] is None]
    return [markdown_table(rows), *(f"{row}: diverged at every rate; give the budget lower ones" for row in lost)]


def _lengths(part: Mapping[str, Any]) -> list[str]:
    rows = [["row", "steps", "x", "validation loss", "at step", "lower by %", "notes"]]
    for one in part["lengths"]:
        lower = "" if one["gain"] is None else f"{100 * one['gain']:.1f}"
        note = "" if one["factor"] != part["factor"] else "the budget" if part["final"] else "not final"
        rows.append([part["row"], f"{one['steps']:,}", f"{one['factor']:g}", *_loss(one), lower, note])
    verdict = f"{part['steps']:,} steps: " if part["final"] else "no final budget: "
    return [markdown_table(rows), f"{verdict}{part['why']}"]


def _hours(found: Mapping[str, Any]) -> list[str]:
    hours, jobs = found["hours"], found["jobs"]
    rows = [["row", "steps", "hours a seed", "seeds", "hours", "notes"]]
    for one in found["rows"]:
        each, every = ("" if one[key] is None else f"{one[key]:.2f}" for key in ("hours_a_seed", "hours"))
        speed = _SPEEDS[one["speed"]].format(**one)
        rows.append([one["row"], f"{one['steps']:,}", each, str(one["seeds"]), every, speed])
    without = "" if found["evaluated"] else "; without what follows training, of which nothing is recorded"
    return [
        markdown_table(rows),
        f"{hours:.1f} hours of trials, {hours / jobs:.1f} with {jobs} at a time{without}",
    ]


def _to_write(found: Mapping[str, Any], part: Mapping[str, Any]) -> list[str]:
    first, *others = part["families"]
    if first["overrides"] is None:
        return []
    factor = part["factor"]
    own = f"rows with steps of their own: {factor:g} times as many"
    lines = [f"Write into {found['study']} at {found['scale']} (at most {EVALUATIONS} validations a run; {own}):"]
    lines += [f'  "{path}": {value!r},' for path, value in first["overrides"].items()]
    for family in others:
        changed = {
            path: value for path, value in (family["overrides"] or {}).items() if value != first["overrides"].get(path)
        }
        if changed:
            settings = ", ".join(f'"{path}": {value!r}' for path, value in changed.items())
            lines.append(f"  rows {', '.join(family['rows'])}: {settings}")
    return lines


def _loss(one: Mapping[str, Any]) -> list[str]:
    return [_DIVERGED, ""] if one["loss"] is None else [f"{one['loss']:.4f}", f"{one['step']:,}"]

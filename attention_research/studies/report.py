"""Writes one self-contained page about a study: table, verdicts, figures, and the origin of the numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from attention_research.studies import document, footnotes, verdict_text
from attention_research.studies.figures import Figure
from attention_research.studies.results import Results
from attention_research.studies.tables import legend, table
from attention_research.studies.verdicts import Judged
from attention_research.training.workdir import write_text

#: The largest number of sentences whose outputs are shown.
SENTENCES = 12


def page(
    results: Results,
    judged: Sequence[Judged],
    figures: Sequence[Figure],
    commands: Sequence[str],
    folders: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as HTML. ``commands`` reproduce the study; ``folders`` are its `trial_folders`, which are listed."""
    study = results.study
    title = f"{study.name} · {results.scale}"
    lines, notes = footnotes.lettered(table(results))
    parts = [
        f"<h1>{escape(study.title)}</h1>",
        f"<p><strong>{escape(title)}</strong>: {len(results.rows)} rows, {results.seeds} random seed"
        f"{'s' if results.seeds != 1 else ''}.</p>",
        "<h2>Results</h2>",
        document.grid(lines, f"Results of {title}", text=(footnotes.NOTES,)),
        *(f"<p>{letter}: {escape(note)}</p>" for letter, note in notes.items()),
        *(f"<p>{escape(line)}</p>" for line in legend(results).splitlines() if line),
    ]
    if judged:
        parts += ["<h2>Claims and verdicts</h2>", *(part for one in judged for part in _verdict(one))]
    if samples := results.samples():
        parts += ["<h2>What the models write</h2>", *_samples(samples)]
    if figures:
        parts += ["<h2>Figures</h2>", *map(document.picture, figures)]
    parts += ["<h2>Where the numbers come from</h2>", _provenance(results)]
    if folders:
        parts += ["<h2>Trials</h2>", *_trials(folders)]
    parts += ["<h2>Commands</h2>", document.commands(commands)]
    return document.document(title, parts)


def _samples(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """For each source, its reference and what each row writes. The first is open."""
    written: dict[tuple[str, str], list[list[str]]] = {}
    for row, found in samples.items():
        for one in found:
            written.setdefault((one["source"], _text(one["reference"])), []).append([row, _text(one["translation"])])
    parts: list[str] = []
    for (source, reference), lines in list(written.items())[:SENTENCES]:
        table = [["row", "text"], ["source", source], ["reference", reference], *lines]
        opened = "" if parts else " open"
        grid = document.grid(table, f"Outputs for {source}", long=("text",))
        parts.append(f"<details{opened}><summary>{escape(source)}</summary>\n{grid}\n</details>")
    return parts


def _text(text: str | Sequence[str]) -> str:
    """A text, or several joined, as captions have several references."""
    return text if isinstance(text, str) else " | ".join(text)


def trial_folders(results: Results, workdir: Path) -> list[dict[str, Any]]:
    """{"row", "seed", "folder"} of each trial, floors included, that has a folder in the folder of the study."""
    folders = [(entry.trial, workdir / "trials" / entry.trial.id) for entry in (*results.entries, *results.floors)]
    return [{"row": one.name, "seed": one.seed, "folder": str(path)} for one, path in folders if path.is_dir()]


def _trials(folders: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [[str(one["row"]), str(one["seed"]), str(one["folder"])] for one in folders]
    return [
        "<p>Each trial is a run: <code>attention-research report FOLDER</code> writes its page, and "
        "<code>evaluate</code>, <code>generate</code> and <code>analyze</code> take "
        "<code>--workdir=FOLDER</code>.</p>",
        document.grid([["row", "seed", "folder"], *lines], "The folders of the trials", text=("folder",)),
    ]


def _verdict(one: Judged) -> list[str]:
    """A claim, its verdict and the table of its cases."""
    parts = [f'<h3 id="{escape(one.id, quote=True)}">{escape(one.claim)}</h3>']
    parts.append(f"<p><strong>{escape(one.status)}</strong>: {escape(one.measurement)}.</p>")
    parts += [f"<p>{escape(sentence)}</p>" for sentence in one.verdict.sentences]
    if found := verdict_text.cases(one.verdict):
        titles = ["case", "outcome", "numbers"]
        parts.append(
            document.grid([titles, *map(list, found)], f"Cases of {one.id}", text=titles[1:], long=("numbers",))
        )
    return parts


def _provenance(results: Results) -> str:
    """The environment of the trials. If values differ between trials, up to four different ones are listed."""
    done = [entry.result for entry in results.entries if entry.result]
    facts: dict[str, list[str]] = {}
    for result in done:
        for name, value in (result.get("environment") or {}).items():
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            if text not in facts.setdefault(name.replace("_", " "), []):
                facts[name.replace("_", " ")].append(text)
    facts["configuration hash by row"] = [_hashes(results)] if any(r.get("config_hash") for r in done) else []
    facts["program by row"] = [_programs(results)] if any("program" in r for r in done) else []
    facts["compared with what would run now"] = _states(results)
    facts["computing time"] = [f"{sum(result['seconds'] for result in done) / 60:.1f} minutes over {len(done)} trials"]
    evaluated: list[dict[str, Any]] = [r["stages"]["evaluate"] for r in done if "evaluate" in r["stages"]]
    facts["BLEU signature"] = sorted({r["signature"] for r in evaluated if "signature" in r})
    facts["F1 signature"] = sorted({r["f1_signature"] for r in evaluated if "f1_signature" in r})
    facts["sentences evaluated"] = sorted({f"{r['sentences']:,}" for r in evaluated if "sentences" in r})
    return document.facts({name: _some(values) for name, values in facts.items()})


def _some(values: list[str], most: int = 4) -> str:
    return "; ".join(values[:most]) + (f"; and {len(values) - most} more" if len(values) > most else "")


def _programs(results: Results) -> str:
    """The fingerprint of the first trial of each row that has a program."""
    first = {
        e.trial.row: e.result["fingerprint"] for e in reversed(results.entries) if e.result and "program" in e.result
    }
    return ", ".join(f"{row} {value}" for row, value in reversed(first.items()))


def _states(results: Results) -> list[str]:
    """The numbers of trials that are current, stale or not comparable, with the reasons."""
    counts = Counter(entry.state.note for entry in results.entries if entry.result)
    return [f"{note}: {number} trial{'' if number == 1 else 's'}" for note, number in counts.items()]


def _hashes(results: Results) -> str:
    first = {e.trial.row: e.result["config_hash"] for e in reversed(results.entries) if e.result}
    return ", ".join(f"{row} {(value or '')[:12]}" for row, value in reversed(first.items()))


def write(path: Path, text: str) -> None:
    """Writes the page to a file."""
    write_text(path, text)

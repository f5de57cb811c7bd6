"""`report`: writes one self-contained page about a run, or redraws the page of a study."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from attention_research.config.record import flat
from attention_research.config.values import spell
from attention_research.errors import ConfigError, RunError
from attention_research.studies import chart, document
from attention_research.studies.columns import significant
from attention_research.studies.loading import find_studies
from attention_research.studies.run import run_study
from attention_research.training.workdir import write_text
from attention_research.workdirs import reading, replicas, status
from attention_research.workdirs.figures import charts
from attention_research.workdirs.reading import Run

_SAMPLES = {"source": "source", "reference": "reference", "translation": "model"}

#: The tasks of models that write text, unless they only fill in tokens. (The class of the model would import JAX.)
WRITING = ("translation", "text_to_text", "coverage", "captioning")


def report(folder: Path, output: Path | None = None) -> Path:
    """Writes the page of the run or study in a folder, by default to report.html in the folder. Returns its path.

    Raises ConfigError if the folder has neither, and RunError if the page cannot be drawn or written.
    """
    output = output or folder / "report.html"
    if reading.is_study(folder):
        drawn = redraw(folder)
        if output.absolute() != drawn.absolute():
            _write(output, drawn.read_text(encoding="utf-8"))
        return output
    run = Run.read(folder)
    try:
        html = page(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{folder}: its files do not fit together ({type(error).__name__}: {error})") from error
    _write(output, html)
    return output


def _write(output: Path, html: str) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_text(output, html)
    except (OSError, RunError) as error:
        because = error if isinstance(error, OSError) else error.__cause__
        reason = getattr(because, "strerror", None) or because
        raise RunError(f"{output}: not written: {reason}; give --output=FILE in another folder") from None


def redraw(folder: Path) -> Path:
    """Redraws the table, figures and page of a study from its trials, without training. Returns the page's path."""
    summary = reading.read_json(folder / "summary.json")
    name: Any = summary.get("study")
    scale: Any = summary.get("scale")
    if name == "sweep":
        raise ConfigError(
            f"{folder}: a sweep; rerun its command, which redraws the page and trains only missing trials"
        )
    if name is None:  # the study is not finished: its name and scale are in the folder's name
        slugs, own = {study.replace("/", "-"): study for study in find_studies()}, folder.resolve().name
        slug = next((slug for slug in slugs if own.startswith(f"{slug}-")), None)
        if slug is None:
            command = f"attention-research reproduce STUDY --render --workdir={folder}"
            raise ConfigError(f"{folder}: the study is unknown, since summary.json is missing; name it: {command}")
        name, scale = slugs[slug], own.removeprefix(f"{slug}-")
    planned = [reading.read_json(trial / "trial.json") for trial in status.trials(folder)]
    seeds = [trial.get("repeat", trial.get("seed", 0)) + 1 for trial in planned]
    seeds += [len(cell["values"]) for row in summary.get("rows", ()) for cell in row["cells"].values()]
    study: Any = summary.get("file") or name  # "file": a study file of the user
    drawn = run_study(study, scale=scale, render=True, workdir=folder, seeds=max(seeds, default=None))
    return Path(drawn["report"])


def page(run: Run) -> str:
    """The page of a run, as HTML."""
    line, name = status.run_line(run.folder), run.folder.resolve().name
    title = f"{name} · {run.config.spec}" if run.config.spec else name
    of_steps = f"step {line.step or 0:,} of {run.steps:,}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p><strong>{escape(line.state)}</strong>: {of_steps}{f'. {escape(line.note)}' if line.note else ''}</p>",
        "<h2>Numbers</h2>",
        document.grid([["quantity", "value"], *map(list, _numbers(run).items())], "The run in numbers"),
        f"<p>Training loss is the optimised one, the mean of the last {reading.LAST} logged steps.</p>",
        *(f"<p>{name} is damaged, so that its entries are missing here.</p>" for name in run.damaged),
    ]
    if curves := charts(run):
        parts += ["<h2>Curves</h2>", *curves]
    if run.evaluation:
        parts += ["<h2>Evaluation</h2>", *_evaluation(run)]
    parts += ["<h2>Config</h2>", *_config(run)]
    if run.environment:
        parts += ["<h2>Where the numbers come from</h2>", document.facts(_environment(run.environment))]
    parts += ["<h2>Commands</h2>", document.commands(_commands(run))]
    return document.document(title, parts, style=chart.STYLE, script=chart.SCRIPT if curves else "")


def _numbers(run: Run) -> dict[str, str]:
    said = lambda name: " ".join("BLEU" if word == "bleu" else word for word in name.split("_"))
    spelled = lambda x, spread: f"{x:,}" if isinstance(x, int) else replicas.spelled(x, spread)
    spreads = run.spreads
    return {said(name): spelled(x, spreads.get(name)) for name, x in run.numbers().items() if x is not None}


def _evaluation(run: Run) -> list[str]:
    found = run.evaluation
    said = [f"{found['sentences']:,} sentences of {found['split']}"] if {"sentences", "split"} <= found.keys() else []
    read: dict[Any, str] = {
        "best": f", the best by {found['best_by']}" if "best_by" in found else ", the lowest validation loss",
        "mean": f", mean of {len(found.get('averaged', ()))} checkpoints",
    }
    said += [f"checkpoint of step {found['step']:,}{read.get(found.get('checkpoint'), '')}"] if "step" in found else []
    signatures = {name.replace("_", " "): str(x) for name, x in found.items() if "signature" in name}
    parts = [f"<p>{escape(', '.join(said))}.</p>" if said else "", document.facts(signatures) if signatures else ""]
    split, spreads = lambda name: found["evaluations"][name.partition(".")[0]].get("split", ""), run.spreads
    further = [
        [name, str(split(name)), replicas.spelled(value, spreads.get(name))]
        for name, value in run.further_scores.items()
    ]
    if further:
        titles = ["evaluation", "split", "score"]
        parts.append(document.grid([titles, *further], "Further evaluations", text=titles[:2]))
    if len(each := replicas.each(found)) > 1:
        scores = [replicas.scores_of(one) | replicas.further_scores_of(one) for one in each]
        names = list(dict.fromkeys(name for one in scores for name in one))
        lines = [
            [str(number), str(one.get("seed", "")), *(significant(4)(x[name]) if name in x else "" for name in names)]
            for number, (one, x) in enumerate(zip(each, scores, strict=True))
        ]
        titles = ["replica", "seed", *(name.replace("_", " ") for name in names)]
        parts.append(document.grid([titles, *lines], "Scores of each replica"))
    samples = [s for s in found.get("samples", ()) if s.keys() >= _SAMPLES.keys()]
    if samples:
        data = run.config.resolved["data"]
        of = {"source": "source_language", "reference": "target_language", "translation": "target_language"}
        languages = {title: data[of[name]] for name, title in _SAMPLES.items() if of[name] in data}
        titles = ["sentence", *_SAMPLES.values()]
        lines = [[str(i + 1), *(_text(sample[name]) for name in _SAMPLES)] for i, sample in enumerate(samples)]
        parts.append(document.grid([titles, *lines], "Samples", long=titles[1:], languages=languages))
    return [part for part in parts if part]


def _text(sample: str | Sequence[str]) -> str:
    """The text of a sample. Several references, as captions have, are joined."""
    return sample if isinstance(sample, str) else " · ".join(sample)


def _config(run: Run) -> list[str]:
    given = flat(run.config.given)
    lines = [[path, spell(value)] for path, value in flat(run.config.resolved).items()]
    # A section may be given as its kind alone.
    said = [line for line in lines if line[0] in given or line[0].removesuffix(".kind") in given]
    titles = ["setting", "value"]
    return [
        f"<p>{len(said)} settings were given, in the config file or on the command line. The others have their defaults"
        f" or are inherited from enclosing sections. Hash {escape(run.config.hash)}.</p>",
        f"<details open><summary>The {len(said)} given settings</summary>",
        document.grid([titles, *said], "Given settings", text=titles),
        f"</details>\n<details><summary>All {len(lines)} settings</summary>",
        document.grid([titles, *lines], "All settings", text=titles),
        "</details>",
    ]


def _environment(environment: Mapping[str, Any]) -> dict[str, str]:
    said = {}
    for name, value in environment.items():
        if name == "versions":
            value = ", ".join(f"{package} {version}" for package, version in value.items())
        elif name == "mesh":
            value = ", ".join(f"{axis} {size}" for axis, size in value.items())
        elif name in ("command", "parameters"):
            continue
        elif name == "earlier":  # the processes that trained the run before it was continued
            said["earlier processes"] = "; ".join(_process(one) for one in value)
            continue
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        said[name.replace("_", " ")] = value if isinstance(value, str) else json.dumps(value)
    return said


def _process(environment: Mapping[str, Any]) -> str:
    """An earlier process of a run on one line: where it began, its date and its git revision."""
    said = [str(environment[name]) for name in ("date", "git_revision") if name in environment]
    return ", ".join([f"from step {environment.get('from_step', 0):,}", *said])


def _commands(run: Run) -> list[str]:
    """The command that made the run, as it was typed, and commands that use the run."""
    program, *words = [str(word) for word in run.environment.get("command", ())] or [""]
    name = "attention-research" if Path(program).name in ("attention-research", "__main__.py") else program
    made = [shlex.join([name, *words])] if program else []
    workdir, config = shlex.quote(str(run.folder)), run.config.resolved
    given = "picture.png" if config["task"]["kind"] == "captioning" else "-"
    writes = config["task"]["kind"] in WRITING and config["model"]["kind"] != "transformer_encoder"
    return [
        *made,
        f"attention-research evaluate --workdir={workdir}",
        *([f"attention-research generate --workdir={workdir} --input={given}"] if writes else []),
        f"attention-research export --workdir={workdir} model.safetensors",
        f"attention-research report {workdir}",
    ]

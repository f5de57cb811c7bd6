"""Floors: the scores of trivial baselines on the data of a table. They are planned and recorded as separate trials.

Examples are an n-gram model, a translation memory, copying, and the most frequent class. The class of the evaluation
declares its floors (`tasks.floors`). Floors depend only on the data, the vocabulary and the evaluation, so rows and
seeds with the same ones share a trial. Its only stage has the kind ``floors``, and its result has a dictionary for each
floor::

    {"floors": {"trigram": {"perplexity": 31.2}, "memory": {"bleu": 26.9, "far_bleu": 12.3}}}

In a table, each floor is a line below the rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import TYPE_CHECKING, Any

from attention_research.config import FLOWS, Config, build, build_experiment, resolve
from attention_research.config.identity import without_defaults
from attention_research.config.record import flat
from attention_research.studies import finetuning, fingerprints
from attention_research.studies.columns import floor_titles
from attention_research.studies.sources import Sources
from attention_research.studies.study import Row, Study, digest
from attention_research.studies.trials import Trial, plan

if TYPE_CHECKING:
    from attention_research.studies.results import Entry

#: The row and the stage of a floors trial.
FLOORS = "floors"
#: Scales without floors, because their numbers have no meaning.
WITHOUT = ("smoke",)
_SCORED = ("data", "evaluation")
#: Settings of these sections on which no floor depends.
_NO_MATTER = ("batching", "batch_size", "average", "augmentation")


def planned(trials: Sequence[Trial], scale: str) -> list[Trial]:
    """One trial for each pair of a data set and an evaluation on which some `trials` of a scale are scored.

    The settings of its stage are "rows", the ids of the rows of these trials; "name", the settings in which the data
    differ from those of other floors of the table; and "stage", the evaluated stage, which is "evaluate" or the name of
    a fine-tuning.
    """
    if scale in WITHOUT:
        return []
    first: dict[str, tuple[Trial, str, dict[str, Any]]] = {}
    contents: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, None]] = {}
    for trial in trials:
        for name, stage, config in _evaluated(trial):
            content = _content(config.resolved)
            key = digest([_said(config.resolved), stage is not None])
            first.setdefault(key, (trial, name, {} if stage is None else {"finetuning": stage}))
            contents[key] = content
            rows.setdefault(key, {})[trial.row] = None
    sources, named = Sources(), _named(contents)
    return [
        _trial(key, trial, {"stage": name, "rows": list(rows[key]), "name": named[key], **more}, sources)
        for key, (trial, name, more) in first.items()
    ]


def plan_with_floors(study: Study, scale: str, rows: list[Row], seeds: int | None, fingerprint: str) -> list[Trial]:
    """The trials of some rows (`trials.plan`), and the floors of their data after them. Sweeps have none."""
    trials = plan(study, scale, rows, seeds, fingerprint)
    return trials if study.path is None else [*trials, *planned(trials, scale)]


def wanted(study: Study, scale: str, rows: Sequence[str] | None) -> set[str]:
    """The ids of the rows to run: all rows, or those in `rows`. The name `FLOORS` in `rows` stands for the floors."""
    named = [row for row in rows or () if row != FLOORS]
    own = {row.id for row in study.rows_at(scale, named)} if named or not rows else set()
    return own if len(named) == len(rows or ()) else {*own, FLOORS}


def chosen(trials: Sequence[Trial], rows: AbstractSet[str]) -> list[Trial]:
    """The trials of some rows, and the floors of their data."""
    return [t for t in trials if t.row in rows or (t.row == FLOORS and not rows.isdisjoint(_settings(t)["rows"]))]


def _evaluated(trial: Trial) -> Iterable[tuple[str, Mapping[str, Any] | None, Config]]:
    """(name, the stage of a fine-tuning or None, config) of each evaluation of a trained trial."""
    if trial.given is None or trial.repeat != 0:  # the seeds of a row share data
        return
    own = resolve(trial.given)
    for stage in trial.stages:
        if stage["kind"] == "evaluate":
            yield "evaluate", None, own
        if stage["kind"] == "finetune":
            yield stage["settings"]["name"], stage, resolve(stage["settings"]["given"])


def _content(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on which floors depend: path -> value."""
    sections = {name: config[name] for name in _SCORED}
    return {
        path: value
        for path, value in flat(sections).items()
        if not any(part in _NO_MATTER for part in path.split(".")) and path != "data.tokenizer.run"
    }


def _said(config: Mapping[str, Any]) -> dict[str, Any]:
    """These settings without defaults, so that a new setting does not change an id. Inherited settings stay."""
    inherited = {name: {flow: config[name][flow] for flow in FLOWS if flow in config[name]} for name in _SCORED}
    bare = without_defaults(dict(config))
    return _content({name: {**bare.get(name, {}), **inherited[name]} for name in _SCORED})


def _named(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A short name for each content, from the fewest settings that tell the contents apart; empty if there is one.

    A content that is scored twice, after training and after a fine-tuning, has one name.
    """
    paths = list(dict.fromkeys(path for content in contents.values() for path in content))
    differ = [path for path in paths if len({str(content.get(path)) for content in contents.values()}) > 1]
    differ.sort(key=lambda path: path != "data.name")
    names = dict.fromkeys(contents, "")
    different = len({str(sorted(content.items())) for content in contents.values()})
    few = (chosen for number in (1, 2, 3) for chosen in combinations(differ, number))
    for chosen in (*few, differ) if different > 1 else ():
        names = {
            key: ", ".join(_told(path, one[path]) for path in chosen if path in one) for key, one in contents.items()
        }
        if len(set(names.values())) == different:
            break
    return names


def _told(path: str, value: Any) -> str:
    return str(value) if path == "data.name" else f"{path.split('.')[-1].replace('_', ' ')} {value}"


def _trial(key: str, trial: Trial, settings: dict[str, Any], sources: Sources) -> Trial:
    address = digest([FLOORS, key])
    stages = ({"kind": FLOORS, "settings": settings, "function": None, "address": address},)
    return Trial(
        id=address,
        row=FLOORS,
        name=", ".join(filter(None, [FLOORS, settings["name"]])),
        seed=0,
        point=None,
        identity=key,
        config_hash=None,
        given=trial.given,
        stages=stages,
        fingerprint=fingerprints.sources_of(stages, sources=sources),
    )


def measure(
    stage: Mapping[str, Any], given: Mapping[str, Any], report: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Runs the stage: prepares the data and computes the floors of the evaluation of the trial or its fine-tuning."""
    from attention_research.tasks.floors import floors_of

    finetuned = stage["settings"].get("finetuning")
    if finetuned is None:
        parts = build_experiment(resolve(dict(given)))
        return floors_of(parts.data().prepare(report), parts.evaluation())
    ((_, config, make),) = (found for found in finetuning.runs([finetuned], given) if found[0])
    return floors_of(make(report).prepare(report), build(config.resolved["evaluation"], "evaluation")())


def value(entries: Sequence[Entry], floor: str, key: str, row: str = "") -> float | None:
    """The score of a floor for a key such as ``evaluate.perplexity``, on the data of a row or, without one, of all
    rows. None if it was not measured."""
    stage, name = key.split(".", 1)
    found = [
        entry.result["stages"].get(FLOORS, {}).get(floor, {}).get(name)
        for entry in entries
        if entry.result and _settings(entry.trial)["stage"] == stage and row in (*_settings(entry.trial)["rows"], "")
    ]
    there = [one for one in found if one is not None]
    return statistics.fmean(there) if there else None


def lines(entries: Sequence[Entry]) -> list[tuple[str, dict[str, float]]]:
    """The printed name of each measured floor, with its numbers by key, for the lines of a table."""
    if not any(entry.result for entry in entries):
        return []
    titles = floor_titles()
    found: dict[str, dict[str, float]] = {}
    for entry in entries:
        stage, data = _settings(entry.trial)["stage"], _settings(entry.trial)["name"]
        for slug, scores in ((entry.result or {}).get("stages", {}).get(FLOORS) or {}).items():
            if isinstance(scores, Mapping):
                name = titles.get(slug, slug) + (f" ({data})" if data else "")
                found.setdefault(name, {}).update({f"{stage}.{metric}": number for metric, number in scores.items()})
    return list(found.items())


def _settings(trial: Trial) -> dict[str, Any]:
    return trial.stages[0]["settings"]

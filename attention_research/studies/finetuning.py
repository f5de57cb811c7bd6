"""The stage `finetune`: a trial's trained parameters trained further, by other settings, in a folder in the trial's.

Row by row and seed by seed, as a benchmark of downstream tasks asks for it: each fine-tuning is a run of its own
(`training.initial`) with the vocabulary of the trial, evaluated at its end, and its numbers stand under its name, as
``topics.accuracy``. Its address holds its settings and that of the stage before it, not the folder in which it lies.
`train_on` makes a stage of the same kind that starts from nothing: the same row on a second task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError, build, resolve
from attention_research.studies.study import Stage

#: In a planned config: the trial's folder, which the worker knows.
TRIAL = "{trial}"
#: What other numbers of a trial stand under.
TAKEN = ("train", "evaluate", "measure", "deal", "inspect", "finetune")


def finetune(
    name: str,
    overrides: Mapping[str, Any],
    *,
    from_stage: str = "train",
    at: Mapping[str, Mapping[str, Any]] | None = None,
    checkpoint: str | int | None = None,
) -> Stage:
    """A stage that trains on from the trained parameters of `from_stage`, "train" or an earlier fine-tuning's name.

    `overrides` are set in the trial's configuration, after the row's; at the scales that `at` names those given there
    come on top. Where they name no ``data.tokenizer`` it is the trial's vocabulary; ``training.initial_checkpoint``
    among them says from which checkpoint it starts. `checkpoint` is the one that is evaluated ("best", or as
    ``evaluation.average`` says).
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) or name in TAKEN:
        raise ConfigError(f"finetune {name!r}: a name is a slug of a-z, 0-9, '_', '-', and none of {', '.join(TAKEN)}")
    at = {scale: dict(more) for scale, more in (at or {}).items()}
    settings = {"name": name, "overrides": dict(overrides), "from_stage": from_stage, "at": at}
    return Stage("finetune", {**settings, "checkpoint": checkpoint})


def train_on(
    name: str,
    overrides: Mapping[str, Any],
    *,
    at: Mapping[str, Mapping[str, Any]] | None = None,
    checkpoint: str | int | None = None,
) -> Stage:
    """A stage that trains the trial's configuration afresh, on the data and by the settings of `overrides`, so that a
    row is measured on a second task. It is `finetune` without parameters and vocabulary of the trial."""
    stage = finetune(name, overrides, at=at, checkpoint=checkpoint)
    return Stage("finetune", {**stage.settings, "from_stage": None})


def text_to_text(
    data: Mapping[str, Any],
    lengths: tuple[int, int],
    metrics: Sequence[str],
    *,
    steps: int,
    batch_size: int,
    examples: int | None = None,
    scored_together: int = 64,
) -> dict[str, Any]:
    """Overrides of a fine-tuning as text to text: sources and targets of one bucket, a rate that falls to 0.

    `lengths` are the longest source and target, `examples` how many of the test split are scored (None: all).
    """
    longest, target_length = lengths
    sizes = {"max_length": longest, "target_length": target_length, "batching": {"boundaries": (longest,)}}
    scored = {"metrics": tuple(metrics), "split": "test", "examples": examples, "batch_size": scored_together}
    return {
        "data": {"kind": "text_to_text", **data, **sizes},
        "training.steps": steps,
        "training.batch_size": batch_size,
        "training.schedule": {"kind": "linear", "warmup_steps": steps // 20},
        "training.eval_every": max(steps // 4, 1),
        "training.checkpoint_every": steps,
        "evaluation": {"kind": "text_to_text", **scored},
    }


def planned(stage: Stage, config: Config | None, scale: str, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The stage's settings as a worker reads them: name, from_stage, checkpoint, the config's identity and `given`.

    `before` are the trial's stages so far. Raises ConfigError, which names the stage, for what cannot be run.
    """
    settings = stage.settings
    name, source = settings["name"], settings["from_stage"]
    sources = {"train" if one["kind"] == "train" else one["settings"].get("name"): one for one in before}
    if config is None or (source is not None and source not in sources) or name in sources:
        there = ", ".join(filter(None, sources)) or "nothing"
        why = "is there twice" if name in sources else f"starts from {source!r}; before it there is {there}"
        raise ConfigError(f"fine-tuning {name} {why}")
    overrides = {**settings["overrides"], **settings["at"].get(scale, {})}
    try:
        tuned = config.override(overrides.items())
        if source is not None:
            initial = "/".join([TRIAL, *([] if source == "train" else [inside(sources[source])])])
            tuned = _with_vocabulary(tuned.override([("training.initial", initial)]), config, overrides)
    except ConfigError as error:
        raise ConfigError(f"{error} (fine-tuning {name})") from None
    told = {"name": name, "from_stage": source, "checkpoint": settings["checkpoint"], "identity": tuned.identity}
    steps = tuned.resolved["training"]["steps"]
    return {**told, "steps": steps, "given": json.loads(json.dumps(tuned.given))}


def _with_vocabulary(tuned: Config, config: Config, overrides: Mapping[str, Any]) -> Config:
    """With the trial's vocabulary, unless the overrides of the fine-tuning name another or its data have none."""
    named = any(path.startswith("data.tokenizer") for path in overrides) or "tokenizer" in overrides.get("data", {})
    if named or not all("tokenizer" in one.resolved["data"] for one in (tuned, config)):
        return tuned
    return tuned.override([("data.tokenizer", {"kind": "from_run", "run": TRIAL})])


def content(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of a stage's settings its address is made of: a config's identity, not how it was said."""
    return {name: value for name, value in settings.items() if name != "given"}


def inside(stage: Mapping[str, Any]) -> str:
    """The stage's folder in its trial's."""
    return f"finetune/{stage['settings']['name']}-{stage['address']}"


def runs(
    stages: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> Iterator[tuple[str, Config, Callable[[Callable[[str], None]], Any]]]:
    """The runs that a trial trains: the prefix of their names ("" or ``topics.``), their configs, and what makes their
    data. Data with the trial's vocabulary prepare the trial's data to get it, and report that."""
    own = resolve(dict(given))
    if any(stage["kind"] == "train" for stage in stages):
        yield "", own, lambda say: build(own.resolved["data"], "data")()
    for stage in stages:
        if stage["kind"] == "finetune":
            config = resolve(stage["settings"]["given"])
            yield f"{stage['settings']['name']}.", config, partial(_tuned_data, config.resolved["data"], own)


def _tuned_data(section: dict[str, Any], own: Config, say: Callable[[str], None]) -> Any:
    make, trained = build(section, "data"), own.resolved["data"]
    if section.get("tokenizer", {}).get("run") == TRIAL:
        tokenizer, file = make.settings["tokenizer"](), build(trained, "data")().prepare(say).tokenizer.path
        tokenizer.stored = build(trained["tokenizer"], "tokenizer")().load(file)
        make.settings["tokenizer"] = lambda: tokenizer
    return make()


def prepare(trial: Any, seen: list[Any], say: Callable[[str], None]) -> None:
    """Prepares the data of a trial's fine-tunings before any trial has trained; what was `seen` is prepared."""
    if trial.given is None:
        return
    own = resolve(trial.given).resolved["data"]
    for prefix, config, make in runs(trial.stages, trial.given):
        section = config.resolved["data"]
        if prefix and [section, own] not in seen:
            seen.append([section, own])
            say(f"data  {make(say).prepare(say).describe()}")


def run(stage: Mapping[str, Any], folder: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """The worker's part: trains in the stage's folder of a trial, continues what was interrupted, and evaluates.

    Returns the evaluation's numbers, and those of training under names that begin with ``train_``.
    """
    from attention_research.training.evaluation import evaluate
    from attention_research.training.run import train
    from attention_research.training.workdir import write_json, write_text

    place, settings = folder / inside(stage), stage["settings"]
    config = resolve(_placed(settings["given"], str(folder.resolve())))
    if (place / "config.json").exists():
        write_text(place / "config.json", config.to_json())  # of the same content, where the study was moved
    trained = place / "trained.json"
    if not trained.exists():
        write_json(trained, train(config, place, report))
    numbers = json.loads(trained.read_text(encoding="utf-8"))
    evaluated = evaluate(place, report, checkpoint=settings["checkpoint"])
    return {**{f"train_{name}": value for name, value in numbers.items()}, **evaluated}


def _placed(value: Any, folder: str) -> Any:
    """A given config with the trial's folder in its place."""
    if isinstance(value, dict):
        return {name: _placed(item, folder) for name, item in value.items()}
    if isinstance(value, list):
        return [_placed(item, folder) for item in value]
    return value.replace(TRIAL, folder) if isinstance(value, str) else value

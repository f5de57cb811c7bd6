"""The stage `finetune`: trains the parameters of a trial further, with other settings, in a folder inside the trial's.

Each row and seed is fine-tuned separately, as in a benchmark of downstream tasks. A fine-tuning is a run
(`training.initial`) with the vocabulary of the trial, and it is evaluated at its end. Its numbers are stored under its
name, as in ``topics.accuracy``. Its address is a hash of its settings and of the stage before it, not of its folder.
`train_on` makes a stage of the same kind that starts from new parameters: the same row on a second task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attention_research import checkpoint_choice
from attention_research.config import Config, ConfigError, build, resolve
from attention_research.studies.study import Stage

#: A placeholder in planned configs for the trial's folder, which the worker fills in.
TRIAL = "{trial}"
#: Names of other stages, under which a trial stores numbers. A fine-tuning cannot have them.
TAKEN = ("train", "evaluate", "measure", "split", "inspect", "finetune")


def finetune(
    name: str,
    overrides: Mapping[str, Any],
    *,
    from_stage: str = "train",
    at: Mapping[str, Mapping[str, Any]] | None = None,
    checkpoint: str | int | None = None,
) -> Stage:
    """A stage that continues training from the parameters of `from_stage`, "train" or the name of a fine-tuning.

    `overrides` are applied to the trial's config, after those of the row. `at` maps a scale to further overrides at
    that scale. Unless the overrides set ``data.tokenizer``, the fine-tuning uses the vocabulary of the trial. The
    override ``training.initial_checkpoint`` selects the checkpoint from which it starts. `checkpoint` is the one that
    is evaluated, such as "best" (None: as ``evaluation.average`` says).

    >>> stage = finetune("topics", {"data.name": "topics/ag_news", "training.steps": 200})
    >>> stage.kind, stage.settings["from_stage"]
    ('finetune', 'train')
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) or name in TAKEN:
        raise ConfigError(f"finetune {name!r}: a name is a slug of a-z, 0-9, '_', '-', and none of {', '.join(TAKEN)}")
    if checkpoint is not None and not checkpoint_choice.is_choice(checkpoint):
        raise ConfigError(f"finetune {name!r}: checkpoint={checkpoint!r}: expected {checkpoint_choice.EXPECTED}")
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
    """A stage that trains the row on a second task, with the data and settings of `overrides`.

    It is `finetune` without the parameters and the vocabulary of the trial.
    """
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
    """Overrides for a text-to-text fine-tuning, with one length bucket and a learning rate that decreases to 0.

    `lengths` are the largest lengths of sources and targets. `examples` is the number of examples of the test split
    that are scored (None: all).

    >>> overrides = text_to_text({"name": "topics/ag_news"}, (64, 8), ["accuracy"], steps=200, batch_size=32)
    >>> overrides["training.schedule"], overrides["training.eval_every"]
    ({'kind': 'linear', 'warmup_steps': 10}, 50)
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


def overrides_at(stage: Stage, scale: str) -> dict[str, Any]:
    """The overrides of a fine-tuning at a scale."""
    return {**stage.settings["overrides"], **stage.settings["at"].get(scale, {})}


def planned(stage: Stage, config: Config | None, scale: str, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a stage for the worker: name, from_stage, checkpoint, steps, and its config (identity, `given`).

    `before` are the trial's stages so far. Raises ConfigError, which names the stage, if it cannot be run.
    """
    settings = stage.settings
    name, source = settings["name"], settings["from_stage"]
    sources = {"train" if one["kind"] == "train" else one["settings"].get("name"): one for one in before}
    if config is None or (source is not None and source not in sources) or name in sources:
        there = ", ".join(filter(None, sources)) or "nothing"
        why = "is there twice" if name in sources else f"starts from {source!r}; before it there is {there}"
        raise ConfigError(f"fine-tuning {name} {why}")
    overrides = overrides_at(stage, scale)
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
    """The config with the trial's vocabulary, unless the overrides set another or the data have none."""
    named = any(path.startswith("data.tokenizer") for path in overrides) or "tokenizer" in overrides.get("data", {})
    if named or not all("tokenizer" in one.resolved["data"] for one in (tuned, config)):
        return tuned
    return tuned.override([("data.tokenizer", {"kind": "from_run", "run": TRIAL})])


def content(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that determine the address of a stage: the identity of its config, without `given`."""
    return {name: value for name, value in settings.items() if name != "given"}


def inside(stage: Mapping[str, Any]) -> str:
    """The folder of a stage, relative to its trial's folder."""
    return f"finetune/{stage['settings']['name']}-{stage['address']}"


def folder_of(name: str, before: Sequence[Mapping[str, Any]]) -> str:
    """The folder of the fine-tuning `name` among the stages `before` a measurement, relative to its trial's folder.

    Raises ConfigError if there is none.
    """
    tuned = {stage["settings"]["name"]: stage for stage in before if stage["kind"] == "finetune"}
    if name not in tuned:
        there = ", ".join(tuned) or "none"
        raise ConfigError(f"measure: expected of= to name an earlier fine-tuning ({there}), not {name!r}")
    return inside(tuned[name])


def runs(
    stages: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> Iterator[tuple[str, Config, Callable[[Callable[[str], None]], Any]]]:
    """Yields the runs that a trial trains: (prefix of their names, such as "" or ``topics.``; config; data function).

    The data function takes a function for progress lines and returns the data. Data with the trial's vocabulary first
    prepare the trial's data.
    """
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
        tokenizer.stored = build(trained["tokenizer"], "tokenizer", "config.data.tokenizer")().load(file)
        make.settings["tokenizer"] = lambda: tokenizer
    return make()


def prepare(trial: Any, seen: list[Any], say: Callable[[str], None]) -> None:
    """Prepares the data of a trial's fine-tunings, before any trial trains. Skips data in `seen`, and adds to it."""
    if trial.given is None:
        return
    own = resolve(trial.given).resolved["data"]
    for prefix, config, make in runs(trial.stages, trial.given):
        section = config.resolved["data"]
        if prefix and [section, own] not in seen:
            seen.append([section, own])
            say(f"data  {make(say).prepare(say).describe()}")


def run(stage: Mapping[str, Any], folder: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Runs the stage in a worker: trains in the stage's folder, continuing an interrupted run, then evaluates.

    Returns the numbers of the evaluation, and those of training under names that begin with ``train_``.
    """
    from attention_research.studies.trial_folders import read_outcome
    from attention_research.training.evaluation import evaluate
    from attention_research.training.run import train
    from attention_research.training.workdir import write_json, write_text

    place, settings = folder / inside(stage), stage["settings"]
    config = resolve(_placed(settings["given"], str(folder.resolve())))
    if (place / "config.json").exists():
        write_text(place / "config.json", config.to_json())  # updates the paths if the study's folder was moved
    trained = place / "trained.json"
    if (numbers := read_outcome(trained)) is None:
        write_json(trained, train(config, place, report))
        numbers = json.loads(trained.read_text(encoding="utf-8"))
    evaluated = evaluate(place, report, checkpoint=settings["checkpoint"])
    return {**{f"train_{name}": value for name, value in numbers.items()}, **evaluated}


def _placed(value: Any, folder: str) -> Any:
    """A given config with the placeholder `TRIAL` replaced by the trial's folder."""
    if isinstance(value, dict):
        return {name: _placed(item, folder) for name, item in value.items()}
    if isinstance(value, list):
        return [_placed(item, folder) for item in value]
    return value.replace(TRIAL, folder) if isinstance(value, str) else value

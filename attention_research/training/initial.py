"""Implements `training.initial`: a run starts at step 0 from the trained parameters and statistics of another run.

The optimizer state and the step are new. Before anything is written, the names, shapes and dtypes of the loaded arrays
are compared with those of the model, and the vocabularies with each other, since row i of an embedding table must
belong to the same token. Once the run has a checkpoint of its own, the other run is not read again. The entry "initial"
of environment.json records what was loaded.

With `initial_parts`, only the arrays below these names are loaded, and the other run may have another model. For
example, a captioning model can take its image features from a classifier. The remaining arrays are initialized
randomly. A loaded array may be a frozen statistic in one model and a trained parameter in the other. Vocabularies are
then compared only if both runs have one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from attention_research import checkpoint_choice
from attention_research.config import Config, ConfigError, build, build_experiment
from attention_research.data import from_run
from attention_research.errors import RunError
from attention_research.layers.structure import abstract
from attention_research.parallel import hosts
from attention_research.parallel.rules import state_shardings
from attention_research.training import digests
from attention_research.training.checkpoints import Checkpoints, OtherModel
from attention_research.training.replicas import member_configs
from attention_research.training.selection import Selection, criterion_of, select
from attention_research.training.settings import Training
from attention_research.training.step import State, state_at_0
from attention_research.training.trainer import Trainer
from attention_research.training.workdir import load_config, read_environment, saved_config, write_json

TAKEN = ("parameters", "statistics")
Report = Callable[[str], None]


def check(config: Config, workdir: Path, report: Report) -> None:
    """Raises ConfigError if a new run of `config` in `workdir` cannot start from its `training.initial`.

    Reasons are a missing run or checkpoint, another model, or another vocabulary. Does nothing if the config has no
    `training.initial` or the run has a checkpoint already.
    """
    members = member_configs(config)
    begun = any(path.name.isdecimal() for path in (workdir / "checkpoints").glob("*"))
    if config.resolved["training"]["initial"] is None or begun:
        return
    parts = build_experiment(members[0])
    _, *abstracts = abstract(lambda rngs: parts.model(rngs=rngs))
    arrays, settings = dict(zip(TAKEN, abstracts, strict=True)), parts.training()
    some = bool(settings.initial_parts)
    runs = runs_of(settings, [member.resolved["training"]["seed"] for member in members])
    for run in dict.fromkeys(runs):
        with chosen(run, settings, report) as (checkpoints, selection):
            step = selection.steps[-1]
            try:
                wanted = asked(arrays, settings.initial_parts, checkpoints.stored(step))
                checkpoints.compare(step, wanted, partial=TAKEN, some=some)
            except OtherModel as error:
                raise ConfigError(f"config.training.initial: {error}") from None
    vocabulary = from_run.recorded(parts.data().prepare(report).tokenizer).get("vocabulary")
    for run in dict.fromkeys(runs):
        theirs = read_environment(run).get("vocabulary")
        if some and None in (theirs, vocabulary):
            continue
        if (theirs or {}).get("fingerprint") != (vocabulary or {}).get("fingerprint"):
            raise ConfigError(
                f"config.data: its vocabulary is {_named(vocabulary)}, that of {run} is {_named(theirs)}; set "
                f"data.tokenizer.kind=from_run and data.tokenizer.run={run}"
            )


def start(trainer: Trainer, report: Report) -> tuple[State, list[dict[str, Any]]]:
    """The state at step 0 from `training.initial`, in the form of `trainer.execution.start()`, and a record of each
    run that was read: {"run", "config", "checkpoint", "step", "fingerprint"}."""
    execution, together = trainer.execution, trainer.replicas > 1
    wanted, named = {name: execution.abstract[name] for name in TAKEN}, trainer.settings.initial_parts
    if together:
        wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), wanted)
        shardings = state_shardings(wanted, execution.mesh)
        wanted = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), wanted, shardings)
    runs, taken, told = runs_of(trainer.settings, trainer.seeds), {}, []
    for run in dict.fromkeys(runs):
        with chosen(run, trainer.settings, report) as (checkpoints, selection):
            step = hosts.agreed(selection.steps[-1])
            theirs = asked(wanted, named, checkpoints.stored(step))
            taken[run] = checkpoints.restore(step, theirs, partial=TAKEN, some=bool(named))
            report(f"starting from {selection} of {run}")
            content = digests.fingerprint(checkpoints.folder / str(step))
        said = {"run": str(run), "config": saved_config(run).hash, "checkpoint": selection.name, "step": step}
        told.append({**said, **({"parts": list(named)} if named else {}), "fingerprint": content})

    def first(seed: jax.Array, arrays: Any) -> State:
        if named:
            fresh = trainer.step_and_start[1](seed)
            theirs = {name: x for group in arrays.values() for name, x in group.items()}
            arrays = {group: {name: theirs.get(name, x) for name, x in fresh[group].items()} for group in TAKEN}
        return state_at_0(seed, arrays["parameters"], arrays["statistics"], trainer.optimizer)

    def of_replicas(seeds: jax.Array, *each: Any) -> State:
        return jax.vmap(first)(seeds, jax.tree.map(lambda *x: jnp.stack(x), *each))

    seeds = jnp.asarray(trainer.seeds if together else trainer.seeds[0], jnp.int32)
    return execution.made(of_replicas if together else first, seeds, *(taken[run] for run in runs)), told


def asked(arrays: Mapping[str, Mapping[str, Any]], parts: Sequence[str], stored: Collection[str]) -> Any:
    """The arrays to read from a checkpoint with the names `stored`: all arrays of the model, or only those of `parts`.

    An array of `parts` is read from the group ("parameters" or "statistics") in which the checkpoint has it. Raises
    ConfigError if the model has no such part.
    """
    if not parts:
        return arrays
    names = {name for group in TAKEN for name in arrays[group]}
    for part in parts:
        if not any(_is_of(name, part) for name in names):
            known = ", ".join(sorted({name.split(".")[0] for name in names}))
            raise ConfigError(f"config.training.initial_parts: the model has no part {part!r}; it has {known}")
    found: dict[str, dict[str, Any]] = {group: {} for group in TAKEN}
    for group, other in zip(TAKEN, reversed(TAKEN), strict=True):
        for name, x in arrays[group].items():
            if any(_is_of(name, part) for part in parts):
                found[other if f"{other}/{name}" in stored else group][name] = x
    return {group: one for group, one in found.items() if one}


def _is_of(name: str, part: str) -> bool:
    """Whether an array belongs to a part of the model, or is the part itself, such as a class token."""
    return name == part or name.startswith(f"{part}.")


def runs_of(settings: Training, seeds: Sequence[int]) -> list[Path]:
    """The run that each replica starts from. `{seed}` in the path is replaced by the seed of the replica."""
    assert settings.initial is not None
    return [Path(settings.initial.replace("{seed}", str(seed))) for seed in seeds]


@contextmanager
def chosen(run: Path, settings: Training, report: Report) -> Iterator[tuple[Checkpoints, Selection]]:
    """The checkpoints of a run and the one that `training.initial_checkpoint` selects. Raises ConfigError if the run
    or checkpoint is missing, or the run has replicas."""
    try:
        config = load_config(run)
    except ConfigError as error:
        there = (run / "config.json").exists()
        why = error if there else "no run there (config.json is missing); train one first"
        raise ConfigError(f"config.training.initial={run}: {why}") from None
    if (replicas := config.resolved["training"].get("replicas", 1)) > 1:
        raise ConfigError(f"config.training.initial={run}: trained {replicas} replicas; give a run of one seed")
    named = settings.initial_checkpoint
    own = build(config.resolved["training"], "training")()
    with Checkpoints(run, own, report, criterion_of(config)) as checkpoints:
        try:
            selection = select(checkpoints, checkpoint_choice.read(named), 1)
        except (ConfigError, RunError) as error:
            raise ConfigError(f"config.training.initial={run}: {error}") from None
        yield checkpoints, selection


def kept(workdir: Path) -> dict[str, Any]:
    """The entries of an existing environment.json that say where the run began: "initial" and "imported", if there."""
    before = read_environment(workdir)
    return {name: before[name] for name in ("initial", "imported") if name in before}


def record(workdir: Path, taken: list[dict[str, Any]]) -> None:
    """Adds the record that `start` returned to environment.json."""
    write_json(workdir / "environment.json", {**read_environment(workdir), "initial": taken})


def _named(vocabulary: dict[str, Any] | None) -> str:
    return vocabulary["fingerprint"] if vocabulary else "not recorded"

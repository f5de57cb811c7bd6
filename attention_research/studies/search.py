"""Hyperparameter search: a sweep whose rows Optuna draws one by one, with the results known so far.

``--search=random`` draws each setting independently. ``--search=tpe`` starts with ten random trials. Then it splits the
finished trials at a quantile y* of their objective and fits a density to each part: l(x) to the better, g(x) to the
worse. Of its draws from l it takes the one with the highest l(x)/g(x), which has the highest expected improvement
(Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization", equations 2-4). A running trial counts as one of
the worse, so that concurrent trials differ (the "constant liar"). With ``--halving`` (`halving`) bad trials end early.

Optuna's journal, ``search.journal`` in the study's folder, holds the draws and their results. The same command
continues from it; with another config it begins anew. A draw depends on the journal and on its own number, not on
interruptions.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config.files import split
from attention_research.errors import ConfigError
from attention_research.studies import study_folder
from attention_research.studies.axes import Axis, only_values, read_axes
from attention_research.studies.candidates import Candidates
from attention_research.studies.columns import QUALITY
from attention_research.studies.draws import Draws, load_optuna
from attention_research.studies.halving import Halving
from attention_research.studies.objectives import VALIDATION_LOSS, Objective, check_split, read_objective
from attention_research.studies.results import Results
from attention_research.studies.run import RUNS, find_executor, say
from attention_research.studies.study import Row, Scale, Study, digest
from attention_research.studies.summary import answer, publish
from attention_research.studies.sweep import shell_command
from attention_research.studies.trial_folders import Folder, write_json
from attention_research.studies.trials import configuration
from attention_research.training.workdir import locked

KINDS = ("random", "tpe")
_JOBS_OF_A_CLUSTER = 8


def search(
    config: str,
    over: Sequence[str],
    kind: str | None = None,
    *,
    trials: int | None = None,
    halving: int | None = None,
    objective: str | None = None,
    overrides: Sequence[tuple[str, Any]] = (),
    seeds: int | None = None,
    runner: str = "local",
    jobs: int | None = None,
    machines: Mapping[str, Any] | None = None,
    workdir: Path | None = None,
    stale: str = "keep",
    as_json: bool = False,
) -> int:
    """Draws, trains and evaluates candidates until there are `trials`, and prints their table, the best first.

    `over` holds lists and ranges (`axes`). `kind` is one of KINDS, or None to run all combinations with `halving`, the
    eta of successive halving. The other arguments and the return value are those of `sweep`. Raises ConfigError before
    anything starts.
    """
    axes, goal = read_axes(over, overrides), read_objective(objective)
    _check(axes, kind, trials, halving, seeds, stale)
    jobs = jobs or (1 if runner == "local" else _JOBS_OF_A_CLUSTER)
    study = _study(config, over, kind, halving, objective, overrides, jobs)
    base = configuration(study, "sweep", Row("base", "base"))
    assert base is not None  # a scale of a sweep always has a config
    training = base.resolved["training"]
    if training["replicas"] > 1:
        raise ConfigError(f"config.training.replicas: {training['replicas']}; a search trains one run a candidate")
    check_split(goal, base)
    rungs = None if halving is None else Halving(halving, training["eval_every"])
    load_optuna()
    executor = find_executor(runner, jobs=jobs, **(machines or {}))
    given = [config, list(over), [[k, repr(v)] for k, v in overrides], kind, halving, objective]
    name = digest([*given, base.identity])  # an edited config file begins another search
    workdir = workdir or RUNS / f"search-{Path(split(config)[0]).stem}-{name[:8]}"
    study_folder.check(workdir)
    with locked(workdir):
        if (line := study_folder.replaced(workdir, study, "sweep")) is not None:
            say(line)
        draws = Draws(workdir / "search.journal", name, axes, kind, rungs and rungs.pruner())
        total = trials or math.prod(len(values) for values in only_values(axes).values())
        say(f"{study.title} · {total} candidates, {draws.count()} already drawn · {workdir}")
        candidates = Candidates(study, draws, Folder(workdir), goal, rungs)
        failed = candidates.run(executor, total)
        found = _sorted(candidates.results(), goal)
        # The identity of the study of `found` would list the rows drawn so far.
        owner = study_folder.identity(study, "sweep")
        summary = {**publish(found, workdir), **owner, "failed": failed, "best": _best(found, goal)}
        write_json(workdir / study_folder.SUMMARY, summary)
    return answer(summary, as_json=as_json)


def _check(
    axes: Mapping[str, Axis],
    kind: str | None,
    trials: int | None,
    halving: int | None,
    seeds: int | None,
    stale: str,
) -> None:
    if kind is None:
        only_values(axes)
    if kind not in (*KINDS, None):
        raise ConfigError(f"--search={kind}: there are {' and '.join(KINDS)}")
    if kind is None and trials is not None:
        raise ConfigError(f"--trials={trials}: needs --search=random or tpe; without it all combinations are run")
    if kind and trials is None:
        raise ConfigError(f"--search={kind}: needs --trials=N, how many are run in all")
    if halving is not None and halving < 2:
        raise ConfigError(f"--halving={halving}: expected a whole number of at least 2")
    if (seeds or 1) > 1:
        option = "--search" if kind else "--halving"
        raise ConfigError(
            f"--seeds={seeds}: {option} runs one seed a candidate; run the best again with sweep --seeds={seeds}"
        )
    if stale != "keep":
        raise ConfigError(f"--stale={stale}: a search goes on from its journal; give another --workdir")


def _study(
    config: str,
    over: Sequence[str],
    kind: str | None,
    halving: int | None,
    objective: str | None,
    overrides: Sequence[tuple[str, Any]],
    jobs: int,
) -> Study:
    """The study of a search, which has no file and no rows yet."""
    goal, asked = read_objective(objective), {"search": kind, "halving": halving, "objective": objective}
    options = [f"--{name}={value}" for name, value in asked.items() if value]
    given = shell_command("sweep", config, over, overrides, *options)
    columns = {column.key: column for column in (*QUALITY, VALIDATION_LOSS, goal.column)}
    first = {goal.column.key: goal.column, VALIDATION_LOSS.key: VALIDATION_LOSS}
    better = "highest" if goal.column.better == "higher" else "lowest"
    return Study(
        rows=(),
        scales={"sweep": Scale(config, dict(overrides), seeds=1, jobs=jobs)},
        columns=tuple({**first, **columns}.values()),
        title=f"Search of {config} over {', '.join(read_axes(over))}",
        name="sweep",
        notes=(given, f"The {better} {goal.column.title} first; then what was stopped early."),
    )


def _sorted(found: Results, goal: Objective) -> Results:
    """The results, best first. Then follow trials that were stopped early, those with the most steps first.

    Diverged trials and trials without a result come last.
    """

    def rank(row: Row) -> tuple[float, ...]:
        result = found.of(row.id)[0].result
        if result is None:
            return (3,)
        if "stopped" in result:
            step, loss = (result["curves"].get("validation") or [[0, math.inf]])[-1]
            return (1, -step, loss)
        cost = goal.cost(result)
        return (0, cost) if math.isfinite(cost) else (2,)

    rows = tuple(sorted(found.rows, key=rank))
    entries = tuple(entry for row in rows for entry in found.of(row.id))
    return dataclasses.replace(found, study=dataclasses.replace(found.study, rows=rows), rows=rows, entries=entries)


def _best(found: Results, goal: Objective) -> dict[str, Any] | None:
    """The objective of the best row, and its settings as command-line options; None if no trial has a result."""
    result = found.entries[0].result if found.entries else None
    if result is None or "stopped" in result or not math.isfinite(goal.cost(result)):
        return None
    row = found.rows[0]
    options = [f"--config.{path}={value}" for path, value in row.overrides.items()]
    value = found.cell(row.id, goal.column).mean
    return {"id": row.id, "objective": goal.column.key, "value": value, "options": shlex.join(options)}

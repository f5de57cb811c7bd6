"""Results made by hand, rows of numbers without trials; and the measurements of one stage, without a trial."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, run_study
from attention_research.studies.comparisons import CLEAR
from attention_research.studies.loading import dereference, reference
from attention_research.studies.results import Entry, Results
from attention_research.studies.trials import Trial
from attention_research.studies.verdict_text import below_a_table
from attention_research.studies.verdicts import Verdict


def trial(row: str, seed: int = 0, point: int | None = None, name: str | None = None) -> Trial:
    """A planned trial that is never run."""
    identity = f"{row}-{seed}-{point}"
    return Trial(identity, row, name or row, seed, point, identity, "hash", {}, (), "sources", steps=600)


def results_of(
    numbers: Mapping[str, Mapping[str, list[float]]],
    *,
    scale: str = "cpu",
    points: tuple[int, ...] = (),
    settings: Mapping[str, Any] | None = None,
    curves: Mapping[str, list[list[list[float]]]] | None = None,
    **study: Any,
) -> Results:
    """Results from row -> {"train.loss": [a number for each seed], ...}. With points, lists run over points (one seed).

    `settings` are those of the scale.
    """
    entries = []
    for row, columns in numbers.items():
        for index in range(max(map(len, columns.values()), default=0)):
            stages: dict[str, dict[str, float]] = {}
            for key, values in columns.items():
                stage, name = key.split(".", 1)
                stages.setdefault(stage, {})[name] = values[index]
            seed, point = (0, points[index]) if points else (index, None)
            result = {"stages": stages, "diverged": None, "cores": 1, "seconds": 1.0, "fingerprint": "sources"}
            result |= {"environment": {}, "config_hash": "hash"}
            result["curves"] = {"train": curves[row][index]} if curves and row in curves else {}
            entries.append(Entry(trial(row, seed, point), result))
    rows = tuple(Row(row, row) for row in numbers)
    made = Study(
        rows,
        {scale: Scale(points=points, settings=settings or {})},
        name="by/hand",
        title="By hand",
        path=Path("hand.py"),
        **study,
    )
    return Results(made, scale, rows, tuple(entries))


def declared(study: Study, results: Results) -> Results:
    """The results with the claims file of a study, in which margins are declared."""
    made = dataclasses.replace(results.study, name=study.name, path=study.path, claims=study.claims)
    return dataclasses.replace(results, study=made)


def with_margin(study: Study, claim: str, numbers: Mapping[str, Any], margin: str, folder: Path) -> Verdict:
    """The verdict on a claim from numbers in the form of `results_of`, if the claim's line declares this margin."""
    folder.joinpath("claims.csv").write_text(f"id,study,margin\n{claim},by/hand,{margin}\n", encoding="utf-8")
    made = results_of(numbers, claims="claims.csv")
    there = dataclasses.replace(made.study, path=folder / "hand.py")
    return study.verdicts[claim](dataclasses.replace(made, study=there))


def measured(study: Study, row: str, **settings: Any) -> dict[str, Any]:
    """The measurement of a row's only stage with these settings, called as by a worker."""
    (found,) = study.rows_at("cpu", [row])
    (stage,) = found.stages or study.stages
    return dereference(reference(stage.function))(**{**found.settings, **settings}, seed=0)


def page_of_the_record(study: str, scale: str, workdir: Path) -> str:
    """The page of a recorded table computed from its record alone, in an empty folder."""
    summary = run_study(study, scale=scale, render=True, workdir=workdir)
    verdicts = [workdir / "verdicts.md"] if any(one["shown"] for one in summary["verdicts"]) else []
    texts = [(workdir / "table.md").read_text(encoding="utf-8")]
    return "\n".join([*texts, *(below_a_table(one.read_text(encoding="utf-8")) for one in verdicts)])


def clear_cases(verdict: Verdict) -> list[str]:
    """The names of the clear cases of a verdict."""
    return [name for name, case in verdict.cases.items() if case.outcome == CLEAR]

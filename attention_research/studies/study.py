"""The classes of a study: rows, scales and stages. A study is a Python file ``experiments/<paper>/<table>.py``.

A row is a config with one change. A scale is a size at which all rows are run. A stage is one step of a trial: train,
evaluate, measure or finetune. A study file defines ``STUDY = Study(...)``, and `studies.loading` finds it.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.studies.budget import Budget, check
from attention_research.studies.columns import QUALITY, Column
from attention_research.studies.competence import Competence

#: The scales in order of size. Claims are judged at `cpu` and larger scales.
SCALES = ("smoke", "quick", "cpu", "gpu", "paper")
JUDGED = ("cpu", "gpu", "paper")
#: The possible verdicts.
HELD = "held"
CONDITION = "held only under a named condition"
FAILED = "did not hold"
UNTESTED = "not tested"
#: For a claim that a figure illustrates and no number decides.
FIGURE = "figure: no verdict"
STATUSES = (HELD, CONDITION, FAILED, UNTESTED, FIGURE)


@dataclasses.dataclass(frozen=True)
class Stage:
    """One step of a trial. Its address is a hash of its kind, its settings and the stages before it.

    ``settings`` are the JSON values that the kind needs. If a stage starts from a stage of another row, they include
    the address of that stage. ``function`` belongs to the kind ``measure``: it is called with the settings of the row
    and the scale and with the point, and returns a flat dict of numbers. ``of`` is the name of the fine-tuning that is
    measured (None: the trial's own run). `finetuning.finetune` makes stages of the kind ``finetune``.
    """

    kind: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    function: Callable[..., dict] | None = None
    of: str | None = None


train = Stage("train")
evaluate = Stage("evaluate")


def measure(function: Callable[..., dict], *, of: str | None = None, **settings: Any) -> Stage:
    """A stage that calls ``function(**settings, **row.settings, **scale.settings, <axis>=point, seed=seed)``.

    If the row is trained, the function also gets ``workdir=``, the folder of the run, which
    `training.evaluation.Trained` opens: that of the earlier fine-tuning `of`, or of the trial. It returns a flat dict.
    Values that are not numbers, such as a list by length or a generated text, are for the study's `figures`.

    >>> def fit(width, depth, seed):
    ...     return {"error": 1.0 / (width * depth)}
    >>> measure(fit, width=64).settings
    {'width': 64}
    """
    return Stage("measure", settings, function, of)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size at which a study is run.

    ``config`` is a config file with an optional variant. ``overrides`` are applied before those of the row. Each row
    has ``seeds`` random seeds; ``more_seeds`` maps row ids to larger numbers of seeds. Seeds count up from
    `training.seed`, which is 0 unless the config or the overrides set it. ``jobs`` trials run at a time, each on its
    share of the cores. A study that only measures has no config. It has ``points``, the values of the study's axis, and
    ``settings`` for its function.

    With ``replicas``, all seeds see the batches of the first seed (or of `training.data_seed`). Trials that differ only
    in seed, learning rate, dropout or label smoothing are then trained in one program (`studies.groups`). ``stages``
    and ``columns`` replace those of the study at this scale. All rows are compared with the row ``reference`` in the
    column ``decided_by``, below the table.
    """

    config: str | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seeds: int = 2
    jobs: int = 1
    replicas: bool = False
    points: tuple[int, ...] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    stages: tuple[Stage, ...] | None = None
    columns: tuple[Column, ...] | None = None
    reference: str = ""
    decided_by: Column | None = None
    more_seeds: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def seeds_of(self, row: str) -> int:
        """The number of random seeds of a row, given by its id."""
        return self.more_seeds.get(row, self.seeds)

    @property
    def most_seeds(self) -> int:
        """The largest number of random seeds of a row."""
        return max([self.seeds, *self.more_seeds.values()])


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table: its ``id`` (a slug), its printed ``name``, and its changes to the config.

    ``overrides`` maps config paths to values; a dict replaces a whole section. ``at`` maps a scale to the overrides
    that are used there in place of ``overrides``. ``settings`` are passed to measure functions. ``scales`` are the
    scales at which the row is run: None means all, and an empty tuple means that the row only has published numbers.
    ``stages`` replace those of the study and the scale.
    """

    id: str
    name: str
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    at: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    scales: tuple[str, ...] | None = None
    stages: tuple[Stage, ...] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.=-]*", self.id):
            raise ConfigError(f"study row {self.id!r}: an id is a slug of a-z, 0-9, '_', '-', '.', '='")


@dataclasses.dataclass(frozen=True)
class Study:
    """A published or planned table as code. See ``experiments/ablation`` for examples.

    - ``published`` is a CSV file beside the study file, with a column ``row`` of row ids. ``compared`` maps our keys to
      the columns of this file that measure the same (`significance.agreement`).
    - ``claims`` is a CSV file in the form of ``experiments/claims.csv``. ``verdicts`` maps a claim id to the function
      that judges the claim; it is called with the study's `results.Results`.
    - ``competence`` are the criteria that show that the models have learned their task (`studies.competence`). An empty
      tuple means that no verdict depends on a trained model. With None, no claim about models is judged. ``untrained``
      are the claims of kind "empirical" or "figure" that need no trained model.
    - ``count`` returns ``{"parameters", "flops"}`` of a row that is only measured. ``counts`` returns further numbers
      that `inspect` prints for a trained row, and ``against`` compares them with the published cells.
    - ``figures`` are functions ``(results, folder) -> Figure | None`` (`studies.figures`) that draw figures of this
      study, in addition to the figures of every study.
    - ``budgets`` are the groups of rows, with comparable losses, for which the command `budget` finds the number of
      steps and the learning rates.
    - `loading.load_study` sets ``name``, ``path`` and ``own`` (whether the file belongs to the user).

    >>> rows = (Row("one", "one head", {"model.num_heads": 1}), Row("four", "four heads", {"model.num_heads": 4}))
    >>> study = Study(rows, {"cpu": Scale("translation/transformer:cpu", seeds=3)}, title="Heads")
    >>> [row.name for row in study.rows_at("cpu")]
    ['one head', 'four heads']
    """

    rows: tuple[Row, ...]
    scales: Mapping[str, Scale]
    title: str = ""
    stages: tuple[Stage, ...] = (train, evaluate)
    columns: tuple[Column, ...] = QUALITY
    axis: str = ""
    axis_name: str = ""
    published: str | None = None
    compared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    claims: str | None = None
    verdicts: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    competence: tuple[Competence, ...] | None = None
    untrained: tuple[str, ...] = ()
    count: Callable[..., dict] | None = None
    counts: Callable[[Config], dict] | None = None
    against: Callable[[Row, Mapping[str, Any], Mapping[str, str]], dict] | None = None
    figures: tuple[Callable[..., Any], ...] = ()
    notes: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
    name: str = ""
    path: Path | None = None
    own: bool = False

    def __post_init__(self) -> None:
        ids = [row.id for row in self.rows]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ConfigError(f"study {self.name or self.title!r}: the row id {twice[0]!r} is used twice")
        for row in (row for scale in self.scales.values() for row in scale.more_seeds if row not in ids):
            raise ConfigError(f"more_seeds of {self.name or self.title!r}: no row {row!r}; {nearest_of(row, ids)}")
        for row in (scale.reference for scale in self.scales.values() if scale.reference not in ("", *ids)):
            raise ConfigError(f"reference of {self.name or self.title!r}: no row {row!r}; {nearest_of(row, ids)}")
        check(self.budgets, ids, self.name or self.title)

    @property
    def argument(self) -> str:
        """The argument of a command that stands for the study: its name, or the path of a user's own file."""
        if self.path is None or not self.own:
            return self.name
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def slug(self) -> str:
        return self.name.replace("/", "-")

    def scale(self, name: str) -> Scale:
        """A scale by its name. Raises ConfigError, with the nearest name, for an unknown scale."""
        if name not in self.scales:
            raise ConfigError(f"scale {name!r}: {self.name} has no such scale; {nearest_of(name, self.scales)}")
        return self.scales[name]

    def stages_of(self, row: Row, scale: str) -> tuple[Stage, ...]:
        """The stages of a row at a scale: its own, or those of the scale, or those of the study."""
        return row.stages or self.scale(scale).stages or self.stages

    def rows_at(self, scale: str, wanted: Sequence[str] | None = None) -> list[Row]:
        """The rows that are run at a scale, or the `wanted` ones of them, in the order of the study."""
        self.scale(scale)
        at = {row.id: row for row in self.rows if row.scales is None or scale in row.scales}
        for name in wanted or ():
            if name in at:
                continue
            known = {row.id: row for row in self.rows}
            if name in known:
                scales = ", ".join(known[name].scales or ())
                if not scales:
                    raise ConfigError(f"row {name!r} of {self.name} has published numbers only and cannot be run")
                raise ConfigError(f"row {name!r} of {self.name} is run at {scales}, not at {scale}")
            raise ConfigError(f"row {name!r}: {self.name} has no such row at {scale}; {nearest_of(name, at)}")
        return [row for row in at.values() if not wanted or row.id in wanted]

    def file(self, name: str) -> Path:
        """The path of a file beside the study file."""
        return (self.path.parent if self.path else Path()) / name

    def record(self, scale: str) -> Path | None:
        """The folder of the recorded results of a scale: ``experiments/<paper>/results/<table>/<scale>``."""
        if self.path is None:
            return None
        table = self.name.rpartition("/")[2]
        paper = self.path.parent if self.path.stem == table else self.path.parent.parent
        return paper / "results" / table / scale


def digest(value: Any, length: int = 12) -> str:
    """A short hash of a JSON value. It is the same in every process and version of Python.

    >>> digest({"width": 64, "depth": 2}) == digest({"depth": 2, "width": 64})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:length]


def nearest_of(name: str, names: Any) -> str:
    """The end of an error message about an unknown name: the nearest of the known names, or all of them.

    >>> nearest_of("linfomer", ["standard", "linformer"])
    'did you mean linformer?'
    """
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(names) or 'none'}"

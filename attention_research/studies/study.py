"""What a study is: rows, scales and stages, written as code in ``experiments/<paper>/<table>.py``.

A row is a configuration with one thing changed; a scale is a size at which all rows are run; a stage is one step of a
trial (train, evaluate, measure, finetune). A study file defines ``STUDY = Study(...)``; `studies.loading` finds it.
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

#: The scales in order of size; claims are judged from `cpu` on.
SCALES = ("smoke", "quick", "cpu", "gpu", "paper")
JUDGED = ("cpu", "gpu", "paper")
#: What a verdict may be.
HELD = "held"
CONDITION = "held only under a named condition"
FAILED = "did not hold"
UNTESTED = "not tested"
#: Of a picture that shows something and decides nothing.
FIGURE = "figure: no verdict"
STATUSES = (HELD, CONDITION, FAILED, UNTESTED, FIGURE)


@dataclasses.dataclass(frozen=True)
class Stage:
    """One step of a trial, addressed by its content: its kind, its settings, and the stages before it.

    ``settings`` are whatever the kind needs, as JSON values; a stage that starts from another row's stage carries that
    stage's address there. ``function`` belongs to the kind ``measure``: called with the row's and the scale's settings
    and the point, it returns a flat dict of numbers. The kind ``finetune`` is made by `finetuning.finetune`.
    """

    kind: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    function: Callable[..., dict] | None = None


train = Stage("train")
evaluate = Stage("evaluate")


def measure(function: Callable[..., dict], **settings: Any) -> Stage:
    """A stage that calls ``function(**settings, **row.settings, **scale.settings, <axis>=point, seed=seed)``; of a row
    that is trained also with ``workdir=``, the run's folder (`training.evaluation.Trained` opens it).

    It returns a flat dict; what is no number (a list by length, a sample's text) is for the study's `figures`.

    >>> def fit(width, depth, seed):
    ...     return {"error": 1.0 / (width * depth)}
    >>> measure(fit, width=64).settings
    {'width': 64}
    """
    return Stage("measure", settings, function)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size at which a study is run.

    ``config`` is a config file and variant, ``overrides`` are applied before the row's; ``seeds`` random seeds a row,
    of the rows that ``more_seeds`` names as many as it says; ``jobs`` trials at a time (each on its share of the
    cores). A study of pure measurement gives ``points`` (the values of the study's axis) and ``settings`` for its
    function instead of a config. Seeds count up from `training.seed`, which is 0 unless the config or the overrides
    give it. With ``replicas`` all seeds see the batches of the first one (or of `training.data_seed`), and trials that
    differ in seeds, learning rate, dropout or label smoothing alone are trained in one program (`studies.groups`).
    ``stages`` and ``columns`` replace the study's at this scale.
    All rows are compared with the row ``reference`` in the column ``decided_by``, below the table.
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
        """How many random seeds the row of that id has."""
        return self.more_seeds.get(row, self.seeds)

    @property
    def most_seeds(self) -> int:
        """How many the row with the most has."""
        return max([self.seeds, *self.more_seeds.values()])


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table: ``id`` (a slug), ``name`` (as printed), and what it changes.

    ``overrides`` are config paths and values (a dict replaces a whole section), at the scales that ``at`` names those
    given there in their place; ``settings`` go to measure functions; ``scales`` are those at which the row is run
    (None: all; none of them: the row holds a paper's cells alone); ``stages`` replace those of the study and scale.
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
    """A published or planned table as code. See the module's docstring and ``experiments/ablation``.

    ``published`` is a CSV beside the study file with a column ``row`` of row ids, ``compared`` says which of our keys
    measures what a column of it measures (`significance.agreement`); ``claims`` a CSV in the form of
    ``experiments/claims.csv``, ``verdicts`` a function a claim id, called with the study's `results.Results`;
    ``competence`` says when the models have learned their task (`studies.competence`; (): no verdict rests on a model
    that the study trains; None: it does not say, and no claim that rests on models is judged), ``untrained`` are the
    claims of kind "empirical" or "figure" that rest on no trained model though others of the study do; ``count``
    gives a measurement row's ``{"parameters", "flops"}``, ``counts`` what `inspect` says of a trained row's
    configuration beside these, ``against`` what it says of all that against the paper's cells. ``figures`` are
    functions ``(results, folder) -> Figure | None`` (`studies.figures`) that draw what the study alone has, beside the
    pictures that every study gets. ``budgets`` say for which rows the command `budget` finds steps and learning rates:
    one for each group of rows whose losses can be compared. ``name``, ``path`` and ``own`` (whether the file is one of
    the user's own) are filled in by `loading.load_study`.

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
        check(self.budgets, ids, self.name or self.title)

    @property
    def argument(self) -> str:
        """What a command takes for it: its name, or its file if that is one of the user's own."""
        if self.path is None or not self.own:
            return self.name
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def slug(self) -> str:
        return self.name.replace("/", "-")

    def scale(self, name: str) -> Scale:
        """The scale of that name; an unknown one is a `ConfigError` that names the nearest."""
        if name not in self.scales:
            raise ConfigError(f"scale {name!r}: {self.name} has no such scale; {nearest_of(name, self.scales)}")
        return self.scales[name]

    def rows_at(self, scale: str, wanted: Sequence[str] | None = None) -> list[Row]:
        """The rows run at a scale, or those of them that are wanted, in the study's order."""
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
        """A file named by the study, beside the study file."""
        return (self.path.parent if self.path else Path()) / name

    def record(self, scale: str) -> Path | None:
        """The folder of the results recorded at a scale: ``experiments/<paper>/results/<table>/<scale>``."""
        if self.path is None:
            return None
        table = self.name.rpartition("/")[2]
        paper = self.path.parent if self.path.stem == table else self.path.parent.parent
        return paper / "results" / table / scale


def digest(value: Any, length: int = 12) -> str:
    """A short hash of a JSON value; the same in every process and version of Python.

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

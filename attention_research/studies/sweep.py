"""Sweeps: ``--over PATH=v1,v2`` on a configuration makes a study without a file, one row for each combination."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError
from attention_research.studies.run import RUNS, reproduce
from attention_research.studies.study import Row, Scale, Study, digest

_PAIRS = {"(": ")", "[": "]", "{": "}"}


def sweep(
    config: str,
    over: Sequence[str],
    *,
    overrides: Sequence[tuple[str, Any]] = (),
    seeds: int | None = None,
    runner: str = "local",
    jobs: int | None = None,
    workdir: Path | None = None,
    stale: str = "keep",
    as_json: bool = False,
) -> int:
    """Train and evaluate every combination of the values in ``over``; the rest, and what it returns, as `reproduce`.

    ``over`` holds texts like ``model.num_heads=1,4,8``; ``overrides`` apply to every row.
    """
    study = sweep_study(config, over, overrides=overrides, seeds=seeds or 1, jobs=jobs or 1)
    stem = Path(config.split(":")[0]).stem
    workdir = workdir or RUNS / f"sweep-{stem}-{digest([config, list(over), [[k, repr(v)] for k, v in overrides]], 8)}"
    return reproduce(study, scale="sweep", runner=runner, workdir=workdir, stale=stale, as_json=as_json)


def sweep_study(
    config: str, over: Sequence[str], *, overrides: Sequence[tuple[str, Any]] = (), seeds: int = 1, jobs: int = 1
) -> Study:
    """The study without a file that `sweep` runs."""
    axes = [parse_over(text) for text in over]
    paths = [path for path, _ in axes]
    if not axes:
        raise ConfigError("sweep: needs at least one --over PATH=VALUE,VALUE")
    for path in paths:
        if paths.count(path) > 1:
            raise ConfigError(f"--over {path}: given twice")
        if path in dict(overrides):
            raise ConfigError(f"--over {path}: is also set by --config.{path}")
    short = _short_names(paths)
    rows, ids = [], set()
    for values in itertools.product(*(values for _, values in axes)):
        name = ", ".join(f"{short[path]}={value}" for path, value in zip(paths, values, strict=True))
        row_id = slug = re.sub(r"[^a-z0-9_.=-]+", "-", name.lower()).strip("-")
        for number in itertools.count(2):
            if row_id not in ids:
                break
            row_id = f"{slug}-{number}"
        ids.add(row_id)
        rows.append(Row(row_id, name, dict(zip(paths, values, strict=True))))
    scale = Scale(config, dict(overrides), seeds=seeds, jobs=jobs)
    given = " ".join([f"--config={config}", *(f"--over {text}" for text in over)])
    title = f"Sweep of {config} over {', '.join(paths)}"
    return Study(tuple(rows), {"sweep": scale}, title=title, name="sweep", notes=(given,))


def parse_over(text: str) -> tuple[str, list[str]]:
    """``PATH=v1,v2`` -> (path, values). Commas inside brackets or quotes belong to a value.

    >>> parse_over("model.betas=(0.9,0.98),(0.9,0.999)")
    ('model.betas', ['(0.9,0.98)', '(0.9,0.999)'])
    """
    path, equals, rest = text.partition("=")
    path = path.strip().removeprefix("config.")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", path):
        raise ConfigError(f"--over {text}: expected PATH=VALUE,VALUE, such as model.num_heads=1,4,8")
    values = [value.strip() for value in _split(rest, text)]
    if not all(values):
        raise ConfigError(f"--over {text}: {path} has an empty value")
    if len(set(values)) < len(values):
        raise ConfigError(f"--over {text}: a value of {path} is given twice")
    return path, values


def _split(text: str, whole: str) -> list[str]:
    """Split at the commas outside brackets and quotes."""
    parts, closing, quote = [""], [], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            closing.append(_PAIRS[character])
        elif character in _PAIRS.values():
            if not closing or closing.pop() != character:
                raise ConfigError(f"--over {whole}: {character!r} closes nothing")
        if character == "," and not closing and not quote:
            parts.append("")
        else:
            parts[-1] += character
    if closing or quote:
        raise ConfigError(f"--over {whole}: {closing[-1] if closing else quote!r} is missing")
    return parts


def _short_names(paths: list[str]) -> dict[str, str]:
    """The shortest endings of the paths that tell them apart; a kind keeps its section's name."""
    names = {}
    for path in paths:
        parts = path.split(".")
        length = 2 if parts[-1] == "kind" and len(parts) > 1 else 1
        while length < len(parts) and any(_ends(other, parts[-length:]) for other in paths if other != path):
            length += 1
        shown = parts[-length:-1] if parts[-1] == "kind" and length > 1 else parts[-length:]
        names[path] = ".".join(shown)
    if len(set(names.values())) < len(names):
        return {path: path for path in paths}
    return names


def _ends(path: str, parts: list[str]) -> bool:
    return path.split(".")[-len(parts) :] == parts

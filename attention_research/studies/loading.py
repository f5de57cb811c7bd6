"""Studies by name: ``<paper>/<table>`` is ``experiments/<paper>/<table>.py`` or ``<paper>/<table>/study.py`` there.

The file defines ``STUDY = Study(...)``, and the first line of its docstring is the study's title. What several studies
share stands in a file without a ``STUDY``, beside one of them or above, and is imported by its relative name
(`studies.references`). A study in a folder of its own has its CSV files there, or names them as ``../claims.csv``.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from attention_research.config import ConfigError
from attention_research.studies.references import module_of
from attention_research.studies.study import Study, nearest_of

EXPERIMENTS = Path("experiments")
#: The file of a study that has a folder of its own.
FILE = "study.py"


def find_studies(experiments: Path = EXPERIMENTS) -> dict[str, str]:
    """Name -> one-line title of every study under ``experiments/``, read from the sources without running them."""
    titles = {_name(path.relative_to(experiments)): _title(path) for path in experiments.rglob("*.py")}
    return {name: title for name, title in sorted(titles.items()) if title is not None}


def _name(path: Path) -> str:
    """The name of the study in a file, whose path under ``experiments/`` is given."""
    return (path.parent if path.name == FILE and len(path.parts) > 2 else path.with_suffix("")).as_posix()


def _title(path: Path) -> str | None:
    """The first line of a study file; None of a file that is none."""
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^STUDY\b", text, re.MULTILINE):  # reading is a hundred times faster than parsing
        return None
    tree = ast.parse(text, filename=str(path))
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    if not any(isinstance(target, ast.Name) and target.id == "STUDY" for target in targets):
        return None
    return ((ast.get_docstring(tree) or "").strip().splitlines() or [""])[0]


def load_study(name: str, experiments: Path = EXPERIMENTS) -> Study:
    """The study of that name; an unknown one is a `ConfigError` that names the nearest."""
    for path in study_files(name, experiments):
        title = _title(path)
        if title is None:
            continue
        study = getattr(module_of(path), "STUDY", None)
        if not isinstance(study, Study):
            raise ConfigError(f"study {name!r}: STUDY in {path} is not a Study")
        named = _name(path.relative_to(experiments))
        return dataclasses.replace(study, name=named, path=path, title=study.title or title)
    near = nearest_of(name, find_studies(experiments))
    raise ConfigError(f"study {name!r}: no such study under {experiments}/; {near}")


def study_files(name: str, experiments: Path = EXPERIMENTS) -> Iterator[Path]:
    """The files that are there of those that may hold the study of that name."""
    parts = Path(name).parts
    if ".." not in parts:
        places = [experiments / f"{name}.py", *([experiments / name / FILE] if len(parts) > 1 else [])]
        yield from (path for path in places if path.is_file())

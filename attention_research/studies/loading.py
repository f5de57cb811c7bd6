"""Studies by name: ``<paper>/<table>`` is ``experiments/<paper>/<table>.py`` or ``<paper>/<table>/study.py`` there.

The file defines ``STUDY = Study(...)``, and the first line of its docstring is the study's title. A file without a
``STUDY`` holds code that several studies share; they import it by its relative name (``from .figures import draw``,
``from ..luong2015.systems import row``). The CSV files of a study are in the folder of its file, or have names such as
``../claims.csv``.

A study file can be in any folder. It runs as a module whose packages are the folders above it, so that relative imports
work at every depth.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from attention_research import bundled
from attention_research.config import ConfigError
from attention_research.config.errors import some
from attention_research.config.files import failure
from attention_research.studies.study import Row, Scale, Study

_LIST = "attention-research list studies"
#: The file of a study that has a folder of its own.
FILE = "study.py"
#: The package that stands for the root of the file system, and that of the packaged studies.
_ROOT, _PACKAGED = "attention_research_study", bundled.package("experiments")


def find_studies(experiments: Path | None = None) -> dict[str, str]:
    """Name -> one-line title of every packaged study, or of the studies in a folder. Reads the files without running
    them.

    >>> "ablation/attention" in find_studies()
    True
    """
    home = experiments or bundled.folder("experiments")
    titles = {_name(path.relative_to(home)): _title(path) for path in home.rglob("*.py")}
    return {name: title for name, title in sorted(titles.items()) if title is not None}


def _name(path: Path) -> str:
    """The name of the study in a file, given by its path under ``experiments/``."""
    return (path.parent if path.name == FILE and len(path.parts) > 2 else path.with_suffix("")).as_posix()


def _title(path: Path) -> str | None:
    """The title of the study in a file: the first paragraph of its docstring. None if the file has no study."""
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^STUDY\b", text, re.MULTILINE):  # reading is a hundred times faster than parsing
        return None
    tree = ast.parse(text, filename=str(path))
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    if not any(isinstance(target, ast.Name) and target.id == "STUDY" for target in targets):
        return None
    return " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())


def load_study(name: str, experiments: Path | None = None) -> Study:
    """A packaged study by its name, or the study in a file of your own by its path, such as ``my_study.py``.

    With ``experiments``, names are looked up in this folder. The name of a study in a file of your own is its path from
    the current folder, or its folder and file name if it is outside. Raises `ConfigError` of one line for an unknown
    study (with the nearest name), for a file that fails, and for a CSV file that is missing.

    >>> study = load_study("ablation/attention")
    >>> len(study.rows) > 5, "quick" in study.scales
    (True, True)
    """
    home = experiments or bundled.folder("experiments")
    path, own = Path(name), False
    if name.endswith(".py") and os.path.isfile(path):  # Path.is_file raises for a name that is too long
        own = not path.resolve().is_relative_to(home.resolve())
        name = _own_name(path) if own else _name(path.resolve().relative_to(home.resolve()))
    if not own:
        given, name = name, name.removeprefix("experiments/").removesuffix(".py")
        found = [file for file in study_files(name, home) if _title(file) is not None]
        if not found:
            beside = path.parent.glob("*.py") if os.path.isdir(path.parent) else ()
            names = [*find_studies(home), *(file.as_posix() for file in beside)]
            inside = [study for study in names if study.startswith(f"{name}/")]
            if inside:
                raise ConfigError(f"study {given!r}: a folder with studies; there are {some(inside, _LIST)}")
            close = difflib.get_close_matches(given, names, 1, 0.4)
            hint = f"did you mean {close[0]}?" if close else f"{_LIST} prints their names"
            raise ConfigError(f"study {given!r}: no such study; {hint}")
        path, name = found[0], _name(found[0].relative_to(home))
    try:
        title, module = _title(path), module_of(path)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(path, error) from error
    study = getattr(module, "STUDY", None)
    if title is None or not isinstance(study, Study):
        raise ConfigError(f"{path}: a study file defines STUDY = Study(...)")
    study = dataclasses.replace(study, name=name, path=path, own=own, title=study.title or title)
    for setting, file in (("published", study.published), ("claims", study.claims)):
        if file is not None and not study.file(file).is_file():
            raise ConfigError(f"{path}: {setting}={file!r}: there is no such file beside the study file")
    return study


def study_of_record(record: Path) -> tuple[Study, str]:
    """The study and the scale of a record's folder, ``experiments/<paper>/results/<table>/<scale>``."""
    *_, paper, _, table, scale = record.parts
    return load_study(f"{paper}/{table}", record.parents[3]), scale


def _own_name(path: Path) -> str:
    """The name of the study in a file of the user's own."""
    whole, here = path.resolve(), Path.cwd().resolve()
    return _name(whole.relative_to(here if whole.is_relative_to(here) else whole.parent.parent))


def study_files(name: str, experiments: Path) -> Iterator[Path]:
    """The existing files that may hold the study of a name."""
    parts = Path(name).parts
    if ".." not in parts and not Path(name).is_absolute():
        places = [experiments / f"{name}.py", *([experiments / name / FILE] if len(parts) > 1 else [])]
        yield from (path for path in places if os.path.isfile(path))


def extend(
    base: Study,
    rows: Sequence[Row] = (),
    *,
    title: str = "",
    scales: Mapping[str, Scale] | None = None,
    figures: Sequence[Callable[..., Any]] | None = None,
    notes: Sequence[str] = (),
) -> Study:
    """A study with rows, scales and notes added, for a file of your own::

        from attention_research.studies import Row, extend, load_study

        STUDY = extend(
            load_study("ablation/attention"),
            rows=[Row("narrow", "scaled, half as wide", {"model.width": 64})],
        )

    The table contains the rows of the base with the paper's numbers, and the new rows. Trials that are recorded for the
    base are not run again. A scale replaces the base's scale of the same name. `figures` replace the figures of the
    base, which may need measurements that a new row does not have. Claims and verdicts are not copied: they were
    written for the rows of the base. Raises `ConfigError` if a new row has the id of another row.

    >>> base = load_study("ablation/attention")
    >>> study = extend(base, rows=[Row("narrow", "scaled, half as wide", {"model.width": 64})])
    >>> len(study.rows) - len(base.rows), study.rows[-1].id
    (1, 'narrow')
    """
    changes: dict[str, Any] = {
        "rows": (*base.rows, *rows),
        "scales": {**base.scales, **(scales or {})},
        "notes": (*base.notes, *notes),
        "published": None if base.published is None else str(base.file(base.published).resolve()),
        "figures": base.figures if figures is None else tuple(figures),
    }
    return dataclasses.replace(base, title=title, claims=None, verdicts={}, name="", path=None, **changes)


def reference(function: Callable[..., Any]) -> str:
    """The location of a function, for another process: ``module:name``, or ``file.py:name`` for a study file.

    >>> reference(load_study)
    'attention_research.studies.loading:load_study'
    >>> dereference(reference(load_study)) is load_study
    True
    """
    if function.__module__.startswith((f"{_ROOT}.", f"{_PACKAGED}.")):
        return f"{inspect.getsourcefile(function)}:{function.__qualname__}"
    return f"{function.__module__}:{function.__qualname__}"


def dereference(where: str) -> Callable[..., Any]:
    """The function of a `reference`."""
    home, name = where.rsplit(":", 1)
    module = module_of(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    return getattr(module, name)


def module_of(path: Path) -> ModuleType:
    """Runs a study file, or another file in its folder, as a new module whose packages are the folders above it."""
    whole = path.resolve()
    name = f"{_package(whole.parent)}.{_word(whole.stem)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _package(folder: Path) -> str:
    """The name of the package that represents a folder. Creates the package if it does not exist."""
    if str(folder) in sys.modules[_PACKAGED].__path__:
        return _PACKAGED
    name = _ROOT if folder == folder.parent else f"{_package(folder.parent)}.{_word(folder.name)}"
    if name not in sys.modules:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return name


def _word(name: str) -> str:
    """The name of a folder as part of a module's name. A name that is not an identifier is replaced by a hash."""
    return name if name.isidentifier() else f"_{hashlib.sha256(name.encode()).hexdigest()[:12]}"

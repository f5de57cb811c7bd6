"""Study files as modules, and their functions by name: ``file.py:name``, which a fresh process can look up.

A study file may lie in any folder. It is run as a module whose name is made of the folders above it, each of which
stands for a package, so that its relative imports are Python's own at every depth: ``from .figures import draw``,
``from ..luong2015.systems import row``, ``from ...haviv2022.nopos import masked``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from attention_research import bundled

#: The package that stands for the root of the file system, and that of the packaged studies.
_ROOT, _PACKAGED = "attention_research_study", bundled.package("experiments")


def reference(function: Callable[..., Any]) -> str:
    """Where a function stands, for a fresh process: ``module:name``, or ``file.py:name`` for one of a study file."""
    if function.__module__.startswith((f"{_ROOT}.", f"{_PACKAGED}.")):
        return f"{inspect.getsourcefile(function)}:{function.__qualname__}"
    return f"{function.__module__}:{function.__qualname__}"


def dereference(where: str) -> Callable[..., Any]:
    """The function of a `reference`."""
    home, name = where.rsplit(":", 1)
    module = module_of(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    return getattr(module, name)


def module_of(path: Path) -> ModuleType:
    """A study file, or one beside it, run anew as a module of the packages that its folders stand for."""
    whole = path.resolve()
    name = f"{_package(whole.parent)}.{_word(whole.stem)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _package(folder: Path) -> str:
    """The name of the package that a folder stands for; it is made where it is not there yet."""
    if str(folder) in sys.modules[_PACKAGED].__path__:
        return _PACKAGED
    name = _ROOT if folder == folder.parent else f"{_package(folder.parent)}.{_word(folder.name)}"
    if name not in sys.modules:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return name


def _word(name: str) -> str:
    """A folder's name as part of a module's; one that is no identifier is replaced by a hash."""
    return name if name.isidentifier() else f"_{hashlib.sha256(name.encode()).hexdigest()[:12]}"

"""The folders that are distributed with the package: configs, experiments and benchmarks.

In a checkout, they are next to the package; in an installed wheel, they are inside it. Imports work in both cases:
``from attention_research.experiments.ablation.rows import ROWS``. They do not depend on the working directory.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
#: The names of the folders. In a wheel they are inside the package, but not part of the program.
FOLDERS = ("configs", "experiments", "benchmarks")


def folder(name: str) -> Path:
    """The path of one of `FOLDERS`."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def in_checkout() -> bool:
    """Whether the package is in a checkout of its repository, in which tables are recorded and git has a revision."""
    return not (PACKAGE / "experiments").is_dir()


def is_of_package(file: Path) -> bool:
    """Whether a file is a module of the package itself."""
    return file.is_relative_to(PACKAGE) and file.relative_to(PACKAGE).parts[0] not in FOLDERS


def package(name: str) -> str:
    """The package name under which one of `FOLDERS` is imported."""
    return f"{PACKAGE.name}.{name}"


def importable() -> None:
    """Makes each folder importable as a subpackage of this package, as it is in a wheel."""
    for name in FOLDERS:
        spec = ModuleSpec(package(name), None, is_package=True)
        spec.submodule_search_locations = [str(folder(name))]
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        setattr(sys.modules[PACKAGE.name], name, module)

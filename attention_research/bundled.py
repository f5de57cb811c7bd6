"""The folders that come with the package: its configs, its experiments, its benchmarks.

In a checkout they stand beside the package, in an installed wheel inside it. Both can be imported from:
``from attention_research.experiments.ablation.rows import ROWS``. No folder depends on where a command is started.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
#: Their names. In a wheel they are folders of the package, but not part of its program.
FOLDERS = ("configs", "experiments", "benchmarks")


def folder(name: str) -> Path:
    """Where one of `FOLDERS` is."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def in_checkout() -> bool:
    """Whether the package lies in a checkout of its repository: there tables are recorded, and git has a revision."""
    return not (PACKAGE / "experiments").is_dir()


def is_of_package(file: Path) -> bool:
    """Whether a file is a module of the package itself."""
    return file.is_relative_to(PACKAGE) and file.relative_to(PACKAGE).parts[0] not in FOLDERS


def package(name: str) -> str:
    """The package that one of `FOLDERS` is imported as."""
    return f"{PACKAGE.name}.{name}"


def importable() -> None:
    """Makes each folder a package of its own below this one, as it is in a wheel."""
    for name in FOLDERS:
        spec = ModuleSpec(package(name), None, is_package=True)
        spec.submodule_search_locations = [str(folder(name))]
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        setattr(sys.modules[PACKAGE.name], name, module)

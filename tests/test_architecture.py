"""The layers of the design: imports point down only. Sources are read with `ast`, so that nested imports count too."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = "attention_research"
#: From top to bottom. A floor may import itself and the floors below it.
FLOORS = (
    "__main__", "cli", "workdirs", "studies", "analysis", "export", "weights", "training", "tasks", "decoding", "data",
    "models", "layers", "parallel", "accounting", "kernels",
)  # fmt: skip
#: Modules below all floors: name -> the floors that may import it (None: all).
BASEMENT = {
    "bundled": None,
    "checkpoint_choice": None,
    "errors": None,
    "registry": None,
    "signatures": None,
    "allocator": {"cli", "accounting"},
    "tokens": None,
    "source_text": None,
    "config": {"cli", "workdirs", "studies", "analysis", "export", "weights", "training", "tasks"},
    "constraints": {"config"},
    "distance_buckets": {"layers"},
    "division": {"parallel"},
    "experiment": {"config", "training", "studies"},
}
BASEMENT_IMPORTS = {
    "bundled": set(),
    "checkpoint_choice": set(),
    "errors": set(),
    "registry": set(),
    "signatures": {"errors"},
    "allocator": set(),
    "tokens": set(),
    "source_text": set(),
    "constraints": {"checkpoint_choice", "distance_buckets", "division"},
    "distance_buckets": set(),
    "division": set(),
    "experiment": {"signatures"},
    "config": {"bundled", "registry", "signatures", "constraints", "errors", "config"},
}
KERNEL_IMPORTS = {"jax", "numpy", "jaxtyping"}
#: Third-party module -> the only parts of the package that may import it.
ONLY = {"ml_collections": {"config"}, "argparse": {"cli"}, "absl.flags": {"cli"}, "absl.app": {"cli"}}
FORBIDDEN = {"tensorflow", "tensorflow_text", "einops"}
NO_NAMES = {"utils", "util", "common", "helper", "helpers", "misc"}


def imports(path: Path, module: str) -> set[str]:
    """Every dotted name that a module imports. ``from x import y`` counts as x.y; relative names are made absolute."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def within(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def violations(root: Path) -> list[str]:
    """One line for each import or module name in ``root/attention_research`` that breaks the design."""
    broken = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        part = parts[1] if parts[1] != "__init__" else ""
        if part and part not in FLOORS and part not in BASEMENT:
            broken.append(f"{module}: {part} stands on no floor")
        broken += [f"{module}: no module is named {name}" for name in parts if name in NO_NAMES]
        for name in sorted(imports(path, module)):
            why = _refused(part, name)
            if why:
                broken.append(f"{module}: imports {name}: {why}")
    return broken


def _refused(part: str, name: str) -> str | None:
    top = name.split(".")[0]
    if top in FORBIDDEN:
        return "not in this package"
    for other, allowed in ONLY.items():
        if within(name, other) and part not in allowed:
            return f"only {', '.join(allowed)} may"
    if part == "kernels" and top != PACKAGE and top not in KERNEL_IMPORTS and top not in sys.stdlib_module_names:
        return "kernels import jax, numpy, jaxtyping and the standard library"
    if top != PACKAGE:
        return None
    below = name.split(".")[1] if "." in name else ""
    if below == part:
        return None
    if part == "kernels":
        return "kernels import no other part of the package"
    if part in BASEMENT:
        return None if below in BASEMENT_IMPORTS[part] else "what lies under all floors imports none of them"
    if below in BASEMENT:
        allowed = BASEMENT[below]
        return None if allowed is None or part in allowed or part == "__main__" else f"{part} must not know {below}"
    if below in FLOORS and part in FLOORS and FLOORS.index(below) <= FLOORS.index(part):
        return f"{below} stands above {part}"
    return None if below in FLOORS else "unknown part of the package"


def test_imports_point_down(root):
    assert violations(root) == []


def test_no_module_names_a_test(root):
    """The library does not name its tests, since they may be absent, as in the wheel."""
    named = [
        f"{path.relative_to(root)}:{node.lineno}: {node.value[:60]}"
        for path in sorted((root / PACKAGE).rglob("*.py"))
        if "tests/" in path.read_text(encoding="utf-8")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "tests/" in node.value
    ]
    assert named == []


def test_kernels_are_imported_from_their_modules(root):
    """`kernels` resolves the names of its namespace lazily. The package's own code imports from the modules instead."""
    bound = {name for node in parsed(root / PACKAGE / "kernels" / "__init__.py").body for name in bound_by(node)}
    modules = {path.stem for path in (root / PACKAGE / "kernels").iterdir()}
    asked = [
        f"{path.relative_to(root)}: {alias.name}"
        for folder in (PACKAGE, "benchmarks", "configs", "experiments", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        if f"{PACKAGE}.kernels import" in path.read_text(encoding="utf-8")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module == f"{PACKAGE}.kernels"
        for alias in node.names
        if alias.name not in bound | modules
    ]
    assert asked == []


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def bound_by(node: ast.stmt) -> set[str]:
    return {alias.asname or alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()


def test_every_module_is_read(root):
    modules = list((root / PACKAGE).rglob("*.py"))
    assert len(modules) > 20
    assert imports(root / PACKAGE / "config" / "files.py", f"{PACKAGE}.config.files") >= {"ml_collections.ConfigDict"}


BAD = {
    "kernels/scores.py": ("from flax import nnx", "flax.nnx"),
    "kernels/lookup.py": ("from attention_research import registry", "kernels import no other part"),
    "layers/block.py": ("from attention_research.models.transformer import Transformer", "models stands above layers"),
    "layers/lazy.py": ("def f():\n    from attention_research import config", "layers must not know config"),
    "models/relative.py": ("from ..training import loop", "training stands above models"),
    "models/whole.py": ("import attention_research.tasks.loss", "tasks stands above models"),
    "data/pipeline.py": ("import tensorflow as tf", "imports tensorflow"),
    "data/words.py": ("from absl import flags", "absl.flags"),
    "training/run.py": ("import argparse", "only cli may"),
    "studies/study.py": ("from ml_collections import ConfigDict", "only config may"),
    "layers/utils.py": ("", "no module is named utils"),
    "helpers/__init__.py": ("", "stands on no floor"),
    "registry.py": ("from attention_research.layers import block", "under all floors"),
    "config/files.py": ("from attention_research.training import run", "under all floors"),
}


@pytest.mark.parametrize("file", BAD)
def test_a_bad_import_is_found(tmp_path, file):
    source, message = BAD[file]
    path = tmp_path / PACKAGE / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    found = violations(tmp_path)
    assert found and all(message in line for line in found[:1]), found


GOOD = {
    "kernels/scores.py": "import math\nimport jax.numpy as jnp\nfrom attention_research.kernels import masks",
    "layers/block.py": "from attention_research.kernels import dot\nfrom attention_research.signatures import Child",
    "data/pairs.py": "import tensorflow_datasets\ndef f():\n    from attention_research.errors import ConfigError",
    "config/files.py": "from ml_collections import ConfigDict\nfrom . import errors",
    "cli.py": "import argparse\nfrom attention_research.studies import run",
    "models/a.py": "from . import b\nfrom ..layers import block",
}


@pytest.mark.parametrize("file", GOOD)
def test_a_good_import_passes(tmp_path, file):
    path = tmp_path / PACKAGE / file
    path.parent.mkdir(parents=True)
    path.write_text(GOOD[file])
    assert violations(tmp_path) == []

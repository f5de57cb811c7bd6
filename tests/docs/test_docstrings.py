"""The examples in docstrings print what they say, and every public kernel has one."""

import ast
import doctest
import importlib
import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research import kernels

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    str(file.relative_to(ROOT))
    for folder in ("attention_research", "experiments")
    for file in (ROOT / folder).rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)
#: Files whose examples compile programs or import SciPy: for several minutes, all together.
COMPILED = tuple(f"attention_research/{one}" for one in (
    "kernels/", "layers/", "models/", "decoding/", "accounting/", "analysis/parameter_counts.py",
    "config/construction.py", "training/health.py", "training/schedules.py", "training/selection.py",
    "training/simplex.py", "training/step.py", "studies/significance.py",
))  # fmt: skip
#: What docs/api.md says that examples assume.
NAMES = {"jax": jax, "jnp": jnp, "np": np}
PUBLIC = {
    f"{home.__module__}.{home.__qualname__}"
    for name in dir(kernels)
    if not name.startswith("_") and name not in ("Any", "Callable")
    and (callable(value := getattr(kernels, name)) and (home := inspect.unwrap(value)))
}  # fmt: skip


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=[pytest.mark.slow] * file.startswith(COMPILED)) for file in FILES]
)
def test_examples(file):
    name = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    name = f"attention_research.{name}" if file.startswith("experiments/") else name
    with np.printoptions(precision=2, suppress=True):
        result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS, extraglobs=NAMES)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("kernel", sorted(PUBLIC))
def test_every_public_kernel_has_an_example_that_uses_it(kernel):
    module, _, name = kernel.rpartition(".")
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    (node,) = (one for one in tree.body if getattr(one, "name", None) == name)
    examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    assert any(name in example.source for example in examples)
    assert any(example.want for example in examples)

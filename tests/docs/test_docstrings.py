"""Doctests: the examples in docstrings print the documented output."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    str(file.relative_to(ROOT))
    for folder in ("attention_research", "experiments")
    for file in (ROOT / folder).rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("file", FILES)
def test_examples(file):
    name = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    name = f"attention_research.{name}" if file.startswith("experiments/") else name
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed

"""The examples in docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

from attention_research.studies.loading import module_of

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    str(file.relative_to(ROOT))
    for folder in ("attention_research", "experiments")
    for file in (ROOT / folder).rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("file", FILES)
def test_examples(file):
    if file.startswith("experiments/"):
        module = module_of(ROOT / file)
    else:
        module = importlib.import_module(".".join(Path(file).with_suffix("").parts).removesuffix(".__init__"))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed

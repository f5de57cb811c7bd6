"""docs/adding_a_data_set.md does in a copy of the repository what it says."""

import re

import pytest
from test_adding_a_variant import BLOCK, copy, shell, walk  # noqa: F401  the fixture copy

PAGE = "docs/adding_a_data_set.md"


@pytest.fixture
def page(root):
    return (root / PAGE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_does_what_it_says(page, copy, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    assert len(walk(page, copy)) == 9


def test_what_it_adds_is_formatted_and_what_it_names_is_there(page, copy, root):  # noqa: F811
    walk(page, copy, lambda command: False)
    added = re.findall(r"^\*\*`([^`.][^`]+)`\*\*\n\n```python", page, re.MULTILINE)
    for check in ("check", "format --check"):
        status, printed = shell(f'"$PYTHON" -m ruff {check} {" ".join(added)}', copy)
        assert status == 0, printed
    for name in re.findall(r"`((?:attention_research|tests|docs)/[^`\n]+)`", BLOCK.sub("", page)):
        assert (copy / name).exists() or (root / name).exists(), name
    changed = re.findall(r"^\*\*`([^`.][^`]+)`\*\*$", page, re.MULTILINE)
    assert len(changed) == 3, "three files a data set"
    assert "(adding_a_data_set.md)" in (root / "docs/index.md").read_text(encoding="utf-8")

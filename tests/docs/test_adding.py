"""The pages that add a data set, a study and a metric do in a copy of the repository what they say."""

import re

import pytest
from test_adding_a_variant import copy, formatted, there, walk  # noqa: F401  the fixture copy

#: A page -> the commands that it runs, and the files that it adds or changes.
PAGES = {"adding_a_data_set": (9, 3), "adding_a_study": (4, 2), "adding_a_metric": (3, 3)}
FILE = r"^\*\*`([^`.][^`]+)`\*\*$"


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name, copy, root, tmp_path, monkeypatch):  # noqa: F811
    if name == "adding_a_data_set":
        monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    page = (root / f"docs/{name}.md").read_text(encoding="utf-8")
    assert len(walk(page, copy)) == PAGES[name][0]


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_adds_is_formatted_and_what_it_names_is_there(name, copy, root):  # noqa: F811
    page = (root / f"docs/{name}.md").read_text(encoding="utf-8")
    walk(page, copy, lambda command: False)
    files = re.findall(FILE, page, re.MULTILINE)
    assert len(files) == PAGES[name][1]
    formatted([file for file in files if file.endswith(".py") and not (root / file).exists()], copy)
    there(page, copy, root)
    assert f"({name}.md)" in (root / "docs/index.md").read_text(encoding="utf-8")

"""docs/lookup_to_transformer.md: every block runs, in order, in one namespace, and prints the documented output."""

from __future__ import annotations

import doctest
import re

import pytest

PAGE = "docs/lookup_to_transformer.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEPS = (
    "A hard lookup table",
    "The soft lookup",
    "One query, any score",
    "The dot product",
    "The scaled dot product",
    "Many queries",
    "Keys and values by projection",
    "Self-attention without parameters",
    "Self-attention with queries, keys and values",
    "Masked",
    "Multi-head",
    "Cross-attention",
)


@pytest.fixture(scope="module")
def page(root):
    return (root / PAGE).read_text(encoding="utf-8")


def run(text: str) -> tuple[int, str]:
    """(number of examples, a report of the failed ones) for the Python blocks of a page."""
    namespace: dict = {}
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start(1))
        block = doctest.DocTestParser().get_doctest(fence[1], namespace, PAGE, PAGE, line)
        assert block.examples, f"the block at line {line} should have an example"
        runner.run(block, out=report.append, clear_globs=False)
        namespace = block.globs
    return runner.tries, "".join(report)


@pytest.mark.slow
def test_every_block_prints_what_the_page_says(page):
    tries, report = run(page)
    assert tries > 80 and not report, report


def test_a_wrong_number_on_the_page_is_found():
    good = "```python\n>>> x = 2\n>>> x + 1\n3\n\n```\nand\n```python\n>>> x * x\n4\n\n```\n"
    assert run(good) == (3, "")
    tries, report = run(good.replace("\n4\n", "\n5\n"))
    assert tries == 3 and "Expected:\n    5\nGot:\n    4" in report


def test_each_step_has_a_heading_an_entry_in_the_table_an_equation_and_a_block(page):
    sections = dict(re.findall(r"^## \d+\. (.+?)\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL))
    assert tuple(sections) == STEPS
    for number, (title, section) in enumerate(sections.items(), 1):
        anchor = re.sub(r"[^a-z0-9 -]", "", f"{number} {title}".lower()).replace(" ", "-")
        assert f"| [{number}](#{anchor}) |" in page
        assert "$$" in section and FENCE.search(section), title

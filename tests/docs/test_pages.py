"""Lists in pages are complete.

The page of licences names every package with data or weights, and every case on the reliability page has a test.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


#: Name of a package in the sources -> the text after its version on the page.
KINDS = {"Package": "", "SourcePackage": "", "DebianPackage": " (Debian)", "NpmPackage": " (npm)"}


def packages() -> set[str]:
    """Name and version of every package in the sources, in the page's form."""
    found = set()
    for file in (*(ROOT / "attention_research").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Package(" in text else ():
            kind = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if kind in KINDS:
                name, version = (ast.literal_eval(argument) for argument in node.args[:2])
                found.add(f"{name} {version}{KINDS[kind]}")
    return found


def test_the_page_lists_exactly_the_packages():
    lines = (ROOT / "docs/data_licences.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[2].strip() for line in lines if line.startswith("| `")]
    assert len(packages()) > 5 and packages() == set(cells)


def test_every_case_of_the_page_on_reliability_has_its_test(root):
    lines = (root / "docs" / "reliability.md").read_text(encoding="utf-8").splitlines()
    cases = [line for line in lines if line.startswith("| ") and not line.startswith(("| case |", "| ---"))]
    assert len(cases) > 20
    for case in cases:
        (path, name), *others = re.findall(r"`([\w/]+\.py)::(\w+)`", case)
        assert not others and f"def {name}(" in (root / "tests" / path).read_text(encoding="utf-8"), case

"""The page of licences names every wheel and .deb that data or weights come from, by its version."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


#: What a package is called in the sources -> what the page says after its version.
KINDS = {"Package": "", "DebianPackage": " (Debian)"}


def packages() -> set[str]:
    """Name and version of every package in the sources, as the page has them."""
    found = set()
    for file in (*(ROOT / "attention_research").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Package(" in text else ():
            kind = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if kind in KINDS:
                name, version = (ast.literal_eval(argument) for argument in node.args[:2])
                found.add(f"{name} {version}{KINDS[kind]}")
    return found


def test_every_package_stands_on_the_page_and_no_other():
    lines = (ROOT / "docs/data_licences.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[2].strip() for line in lines if line.startswith("| `")]
    assert len(packages()) > 5 and packages() == set(cells)

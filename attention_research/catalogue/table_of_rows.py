"""The rows of Narang et al. 2021, Table 1, in the catalogue: each with its paper, file, equation, size and oracle.

What they are stands in `experiments/narang2021/variants.csv`, what they count, as `inspect` said it, in `counts.csv`
beside it.
"""

from __future__ import annotations

import csv
from pathlib import Path

from attention_research.catalogue.cells import code, line, link, text

FOLDER = Path("experiments/narang2021")
HEAD = """\
## Whole Transformers: the 52 rows of Narang et al. 2021, and what ran otherwise than written

Changes of one baseline, [`narang2021.py`](../configs/text_to_text/narang2021.py); the overrides of each stand in
[`rows.py`](../experiments/narang2021/rows.py). Parameters are those of the paper's sizes, as

    attention-research inspect --study=narang2021/table1 --scale=paper --json

counts them (`narang2021/as_written` for the last ones). All go through `tests/models/test_narang_rows.py`: every
parameter alive within two updates, causality by gradient, cached decoding, padding, scan against loop, bfloat16.
"""
COLUMNS = ("row", "parameters", "paper", "equation", "oracle")


def read(root: Path, name: str) -> dict[str, dict[str, str]]:
    """Row id -> cells."""
    with open(root / FOLDER / name, encoding="utf-8", newline="") as file:
        return {row.pop("row"): row for row in csv.DictReader(file)}


def section(root: Path) -> str:
    """The section as Markdown."""
    counts = read(root, "counts.csv")
    lines = [HEAD, line(COLUMNS), line(["---", "---:", "---", "---", "---"])]
    for name, row in read(root, "variants.csv").items():
        path, test = row["test"].split("::")
        parameters = f"{int(counts[name]['parameters']):,}"
        oracle = link(test.removeprefix("test_").replace("_", " "), path)
        lines.append(line((link(name, row["file"]), parameters, text(row["paper"]), code(row["equation"]), oracle)))
    return "\n".join([*lines, ""])

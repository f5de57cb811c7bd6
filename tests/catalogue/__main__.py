"""Prints docs/catalogue.md: a table for each family of mechanisms, then the rows of Narang et al. 2021, Table 1.

The exponents are those of the newest benchmarks/results/scaling-*.json. `experiments/narang2021/variants.csv` describes
the rows of Narang et al., and `counts.csv` has their counts by `inspect`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.catalogue import FAMILIES, Mechanism, mechanisms

HEAD = """\
# The catalogue

Every mechanism of `attention_research.kernels`: a pure function on arrays, one file each. What a column claims is
tested: `tests/kernels/test_kernel_laws.py` walks the descriptions in `tests/catalogue/` through
gradients, padding, empty rows, causality, permutations, bfloat16, shapes and JAX's transforms; the oracle is an
implementation that shares no code with ours. This page is written by

    python -m tests.catalogue > docs/catalogue.md

*Causal*: exactly no gradient from later positions. *Cached*: one position at a time gives the same numbers.
*Blockwise*: no array of all scores. *Time, memory*: their exponents in the sequence length, forward and backward,
{measured}; a dash where it was not measured.
"""
COLUMNS = ("mechanism", "paper", "equation", "causal", "cached", "blockwise", "time, memory", "oracle")
FOLDER = Path("experiments/narang2021")
ROWS_HEAD = """\
## Whole Transformers: the 52 rows of Narang et al. 2021, and what ran otherwise than written

Changes of one baseline, [`narang2021.py`](../configs/text_to_text/narang2021.py); the overrides of each stand in
[`rows.py`](../experiments/narang2021/rows.py). Parameters are those of the paper's sizes, as

    attention-research inspect --study=narang2021/table1 --scale=paper --json

counts them (`narang2021/as_written` for the last ones). All go through `tests/models/test_narang_rows.py`: every
parameter alive within two updates, causality by gradient, cached decoding, padding, scan against loop, bfloat16.
"""
ROWS_COLUMNS = ("row", "parameters", "paper", "equation", "oracle")


def text(of: str) -> str:
    """Prose, with all markup escaped."""
    return of.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def code(of: str) -> str:
    """A formula, as inline code."""
    return "`" + of.replace("|", "\\|") + "`"


def link(of: str, path: str) -> str:
    """A link to a file of the repository, from docs/."""
    return f"[{text(of)}](../{path})"


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def row(mechanism: Mechanism, exponents: Mapping[str, Mapping[str, float]]) -> str:
    """One line of a family's table."""
    citation = mechanism.citation()
    paper = ", ".join(filter(None, (citation["paper"], citation["where"])))
    path, test = mechanism.test
    fitted = exponents.get(mechanism.name)
    cells = (
        f"[{mechanism.name}](../{mechanism.file})",
        text(paper),
        code(citation["equation"]),
        "yes" if mechanism.causal else "",
        "yes" if mechanism.cached else "",
        "yes" if mechanism.blockwise else "",
        f"{fitted['time']:.2f}, {fitted['memory']:.2f}" if fitted else "-",
        link(test.removeprefix("test_").replace("_", " "), path),
    )
    return line(cells)


def tables(scaling: Mapping[str, Any] | None = None) -> str:
    """The families' tables. `scaling` is the document of `benchmarks/scaling.py`."""
    exponents = scaling["exponents"] if scaling else {}
    measured = "not measured yet"
    if scaling:
        lengths = scaling["shape"]["lengths"]
        measured = (
            f"fitted between {lengths[0]} and {lengths[-1]} on {scaling['cores']} cores of {scaling['processor']}, "
            f"{scaling['date'][:10]} (benchmarks/scaling.py)"
        )
    lines = [HEAD.format(measured=measured)]
    for family, title in FAMILIES.items():
        lines += [f"## {title}\n", line(COLUMNS), line(["---"] * len(COLUMNS))]
        lines += [row(mechanism, exponents) for mechanism in mechanisms(family)]
        lines.append("")
    return "\n".join(lines)


def read(root: Path, name: str) -> dict[str, dict[str, str]]:
    """Row id -> cells."""
    with open(root / FOLDER / name, encoding="utf-8", newline="") as file:
        return {row.pop("row"): row for row in csv.DictReader(file)}


def section(root: Path) -> str:
    """The section on the rows of Narang et al. 2021, as Markdown."""
    counts = read(root, "counts.csv")
    lines = [ROWS_HEAD, line(ROWS_COLUMNS), line(["---", "---:", "---", "---", "---"])]
    for name, row in read(root, "variants.csv").items():
        path, test = row["test"].split("::")
        parameters = f"{int(counts[name]['parameters']):,}"
        oracle = link(test.removeprefix("test_").replace("_", " "), path)
        lines.append(line((link(name, row["file"]), parameters, text(row["paper"]), code(row["equation"]), oracle)))
    return "\n".join([*lines, ""])


def scaling(root: Path) -> dict[str, Any] | None:
    """The newest recorded measurement of time and memory against length."""
    found = [json.loads(path.read_text("utf-8")) for path in (root / "benchmarks/results").glob("scaling-*.json")]
    return max(found, key=lambda document: document["date"], default=None)


def document(root: Path) -> str:
    """The whole of docs/catalogue.md."""
    return f"{tables(scaling(root))}\n{section(root)}"


if __name__ == "__main__":
    print(document(Path.cwd()), end="")

"""The catalogue as a page of Markdown: one table a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_research.catalogue import FAMILIES, Mechanism, mechanisms
from attention_research.catalogue.cells import code, line, link, text

HEAD = """\
# The catalogue

Every mechanism of `attention_research.kernels`: a pure function on arrays, one file each. What a column claims is
tested: `tests/kernels/test_laws_<family>.py` walks the descriptions in `attention_research/catalogue/` through
gradients, padding, empty rows, causality, permutations, bfloat16, shapes and JAX's transforms; the oracle is an
implementation that shares no code with ours. This page is written by

    python -m attention_research.catalogue > docs/catalogue.md

*Causal*: exactly no gradient from later positions. *Cached*: one position at a time gives the same numbers.
*Blockwise*: no array of all scores. *Time, memory*: their exponents in the sequence length, forward and backward,
{measured}; a dash where it was not measured.
"""
COLUMNS = ("mechanism", "paper", "equation", "causal", "cached", "blockwise", "time, memory", "oracle")


def row(mechanism: Mechanism, exponents: Mapping[str, Mapping[str, float]]) -> str:
    """One line of a family's table."""
    citation = mechanism.citation()
    paper = ", ".join(filter(None, (citation["paper"], citation["where"])))
    path, test = mechanism.oracle.split("::")
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


def page(scaling: Mapping[str, Any] | None = None) -> str:
    """The whole page; `scaling` is the document of `benchmarks/scaling.py`."""
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

"""The verdict of `hu2018/se`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

KEY = "evaluate.accuracy"


def helps(results: Results) -> Verdict:
    """Accuracy with gates against none, and against a network a channel wider; what gates know of classes beside."""
    cases = {
        f"{gate} against {other}": compare(results, gate, other, KEY, higher=True)
        for gate in ("squeeze_excitation", "channel")
        for other in ("none", "wider")
    }
    found = conclude(cases)
    said = []
    for gate in ("squeeze_excitation", "channel"):
        share, more = results.mean(gate, "measure.by_class"), _overhead(results, gate)
        if share is not None:
            said.append(f"{gate}: classes explain {100 * share:.0f} % of the last gates' variance{more}")
    return found.beside(*said)


def _overhead(results: Results, gate: str) -> str:
    """Parameters more than without, where both are counted."""
    ours, theirs = (results.mean(row, "inspect.parameters") for row in (gate, "none"))
    return "" if ours is None or theirs is None else f", {ours - theirs:,.0f} parameters more than without"

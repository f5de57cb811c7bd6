"""Rows and verdicts of claims that are exactly true or false. Each claim has one law (`law`)."""

from __future__ import annotations

from collections.abc import Callable

from attention_research.studies import Row, measure
from attention_research.studies.columns import Column, significant
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, decide

from .law import holds, measure_law

COLUMNS = (
    Column("measure.zero", "largest difference", lambda value: f"{value:.0e}" if value else "0", spread=False),
    Column("measure.other", "difference of the control", significant(2), spread=False),
)
#: The number of random instances for each law and seed.
DRAWS = {"draws": 8}

NOTE = (
    "Largest difference: the largest value, over all random instances, of a difference that should be exactly 0 "
    "(computed in float64). Difference of the control: the smallest difference in cases to which the statement does "
    "not apply, so that it should not be 0."
)


def row(claim: str, name: str) -> Row:
    """The row that measures the law of a claim."""
    return Row(claim, name, settings={"claim": claim}, stages=(measure(measure_law),))


def exact(claim: str) -> Callable[[Results], Verdict]:
    """Returns a verdict function: the claim holds if its law holds for every instance.

    The cases are the differences that should be zero, and the controls, by name.
    """

    def judge(results: Results) -> Verdict:
        zeros, others = _worst(results, claim, "zeros", max), _worst(results, claim, "others", min)
        cases = {name: Case.ruled(holds({name: value}, {}), f"{value:.2g}") for name, value in zeros.items()}
        for name, value in others.items():
            cases[f"control ({name})"] = Case.ruled(holds({}, {name: value}), f"{value:.2g}")
        if not cases:
            return decide({"the law": Case.ruled(None)})
        return decide(cases, "largest differences in float64")

    return judge


def _worst(results: Results, claim: str, name: str, choose: Callable[..., float]) -> dict[str, float]:
    """Maps each name to the value of the worst seed."""
    found = results.values(claim, f"measure.{name}")
    return {key: choose(one[key] for one in found) for key in (found[0] if found else {})}

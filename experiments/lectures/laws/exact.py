"""Rows and verdicts of claims that are exactly true or false: a law each (`law`)."""

from __future__ import annotations

from collections.abc import Callable

from attention_research.studies import Row, measure
from attention_research.studies.columns import Column, significant
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict

from .law import holds, measure_law

COLUMNS = (
    Column("measure.zero", "differs by", lambda value: f"{value:.0e}" if value else "0", spread=False),
    Column("measure.other", "otherwise by", significant(2), spread=False),
)
#: Random instances of each law and seed.
DRAWS = {"draws": 8}

NOTE = (
    "Differs by: the largest difference, over all instances, that the statement says is none (float64); otherwise by: "
    "the smallest that there has to be where it does not apply."
)


def row(claim: str, name: str) -> Row:
    """The law of a claim."""
    return Row(claim, name, settings={"claim": claim}, stages=(measure(measure_law),))


def exact(claim: str) -> Callable[[Results], Verdict]:
    """Whether every instance of the claim's law held, with the largest differences by name."""

    def judge(results: Results) -> Verdict:
        zeros = _worst(results, claim, "zeros", max)
        if not zeros:
            return Verdict(UNTESTED, "the law is not measured")
        others = _worst(results, claim, "others", min)
        said = [f"{name}: {value:.2g}" for name, value in zeros.items()]
        said += [f"otherwise ({name}): {value:.2g}" for name, value in others.items()]
        return Verdict(HELD if holds(zeros, others) else FAILED, f"largest differences in float64: {'; '.join(said)}")

    return judge


def _worst(results: Results, claim: str, name: str, choose: Callable[..., float]) -> dict[str, float]:
    """Name -> the number of the worst seed."""
    found = results.values(claim, f"measure.{name}")
    return {key: choose(one[key] for one in found) for key in (found[0] if found else {})}

"""Verdicts: whether a claim that names a study held in it, by code, from the numbers and their spread.

A difference counts as clear when every seed of one row is better than every seed of the other and the means differ by
more than twice the standard error of their difference, sqrt(s1^2/n1 + s2^2/n2). With fewer than two seeds a side
nothing is clear. Claims are judged at `cpu` and above; below, the function is computed and its outcome not claimed.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import re
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attention_research.studies import competence
from attention_research.studies.study import JUDGED, Study

if TYPE_CHECKING:
    from attention_research.studies.results import Results

HELD = "held"
CONDITION = "held only under a named condition"
FAILED = "did not hold"
UNTESTED = "not tested"
STATUSES = (HELD, CONDITION, FAILED, UNTESTED)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A status of `STATUSES` and the sentence that carries its numbers."""

    status: str
    because: str

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"{self.status!r} is no verdict: {STATUSES}")


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim with its verdict, and whether this scale may say it.

    ``computed`` is the status by the claim's function, also where models that have not learned their task leave the
    claim not tested; ``competence`` says whether they have (None: no model is trained).
    """

    id: str
    claim: str
    measurement: str
    verdict: Verdict
    judged: bool
    computed: str
    competence: tuple[competence.Met, ...] | None

    @property
    def status(self) -> str:
        return self.verdict.status if self.judged else "not judged at this scale"

    def to_json(self) -> dict[str, Any]:
        learned = self.competence[0].to_json() if self.competence else None
        texts = {"id": self.id, "claim": self.claim, "measurement": self.measurement, "status": self.status}
        said = {"computed": self.computed, "because": self.verdict.because, "judged": self.judged}
        return {**texts, **said, "competence": learned}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How much better one row is than another under a key; ``clear`` is None where it was not measured."""

    better: str
    worse: str
    gain: float | None
    clear: bool | None
    text: str


def clearly_above(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether ours are clear above theirs, by the rule above, one number a seed; -inf is a run that diverged.

    >>> clearly_above([3.0, 3.1], [1.0, 1.2]), clearly_above([3.0, 1.1], [1.0, 1.2]), clearly_above([3.0], [1.0])
    (True, False, False)
    """
    if min(len(ours), len(theirs)) < 2:
        return False
    finite = all(map(math.isfinite, [*ours, *theirs]))
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in (ours, theirs))) if finite else 0.0
    return min(ours) > max(theirs) and statistics.fmean(ours) - statistics.fmean(theirs) > 2 * error


def compare(results: Results, better: str, worse: str, key: str = "train.loss", *, higher: bool = False) -> Comparison:
    """Compare two rows by id; ``gain`` is positive where ``better`` is better (lower, or higher with ``higher``).

    The row ``better`` must have learned its task (`studies.competence`); ``worse`` may have failed at it.
    """
    sign = 1.0 if higher else -1.0
    # A run that diverged is worse than any that did not.
    ours, theirs = (
        [-math.inf if math.isnan(value) else sign * value for value in results.values(row, key)]
        + [-math.inf] * results.diverged(row)
        for row in (better, worse)
    )
    name = key.split(".")[1]
    if not ours or not theirs:
        missing = " and ".join(row for row, values in ((better, ours), (worse, theirs)) if not values)
        return Comparison(better, worse, None, None, f"{name} of {missing} not measured")
    first, second = statistics.fmean(ours), statistics.fmean(theirs)
    gain = first - second if first != second else 0.0
    said = [f"{sign * mean + 0.0:.3g}" if math.isfinite(mean) else "diverged" for mean in (first, second)]
    text = f"{name} {said[0]} ({better}) against {said[1]} ({worse})"
    if refused := competence.refusal(results, better):
        return Comparison(better, worse, gain, None, f"{text}, {refused}")
    if min(len(ours), len(theirs)) < 2:
        return Comparison(better, worse, gain, None, f"{text}, one seed: nothing is clear")
    clear = clearly_above(ours, theirs)
    text += f", {'clear' if clear else 'worse' if gain < 0 else 'not clear'} over {min(len(ours), len(theirs))} seeds"
    return Comparison(better, worse, gain, clear, text)


def conclude(cases: dict[str, Comparison], *, untested: tuple[str, ...] = ()) -> Verdict:
    """One verdict from named cases: all clear, some clear (then they are the condition), none, or none measured."""
    measured = {name: case for name, case in cases.items() if case.clear is not None}
    held = [name for name, case in measured.items() if case.clear]
    because = "; ".join(f"{name}: {case.text}" for name, case in cases.items())
    left = [*(name for name in cases if name not in measured), *untested]
    if left:
        because = "; ".join(filter(None, [because, f"not tested: {', '.join(left)}"]))
    if not measured:
        return Verdict(UNTESTED, because)
    if not held:
        return Verdict(FAILED, because)
    if len(held) == len(measured) and not left:
        return Verdict(HELD, because)
    return Verdict(CONDITION, f"held for {', '.join(held)}; {because}")


def claims_of(study: Study) -> list[dict[str, str]]:
    """The claims that name the study, from its CSV."""
    if study.claims is None:
        return []
    with open(study.file(study.claims), encoding="utf-8", newline="") as file:
        return [claim for claim in csv.DictReader(file) if study.name in claim["study"].split(";")]


def judge(results: Results) -> list[Judged]:
    """A verdict on every claim that names the study.

    One without a function is not tested, nor is one that rests on models that have not learned their task.
    """
    found = []
    for claim in claims_of(results.study):
        function = results.study.verdicts.get(claim["id"])
        untested = Verdict(UNTESTED, "no row of this study tests it yet")
        said = function(competence.narrowed(results, claim)) if function else untested
        learned = competence.of_results(results, claim)
        refused = competence.refused(learned)
        verdict = Verdict(UNTESTED, refused) if refused and said.status != UNTESTED else said
        judged = results.scale in JUDGED
        found.append(Judged(claim["id"], claim["claim"], claim["measurement"], verdict, judged, said.status, learned))
    return found


def markdown(name: str, scale: str, judged: Sequence[Judged]) -> str:
    """Every claim with its verdict, whether models have learned the task, and the numbers, a line a case."""
    parts = [f"# {name} · {scale}: claims and verdicts"]
    for one in judged:
        cases = "\n".join(f"- {case}" for case in one.verdict.because.split("; "))
        learned = "\n".join(competence.lines(one.competence))
        measured = f"Measured: {one.measurement}."
        parts.append(f"## {one.id}: {one.status}\n\n> {one.claim}\n\n{measured}\n\n{learned}\n\n{cases}")
    return "\n\n".join(parts) + "\n"


def below_a_table(text: str) -> str:
    """What `markdown` gave, with its headings one level lower: a part of the page of a recorded table."""
    return re.sub("^#", "##", text, flags=re.MULTILINE)

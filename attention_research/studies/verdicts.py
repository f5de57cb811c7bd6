"""Verdicts: code decides whether a claim about a study held, from the numbers and their spread.

A claim has one or more cases.

- The claim held if every case is clear (`comparisons`). The p-values of all its cases are corrected by Holm's method.
- It held under a condition if its line of the claims CSV named some cases in advance and these are clear.
- It is not tested if all measured cases are clear and some cases were not measured, or if nothing was measured.
- Otherwise it did not hold: a case is not clear, or is reversed.

Claims are judged at scale `cpu` and above. At smaller scales the outcome is computed, but it is not a verdict.
"""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attention_research.errors import ConfigError
from attention_research.studies import competence
from attention_research.studies.comparisons import (
    CLEAR,
    OPEN,
    REVERSED,
    UNMEASURED,
    Comparison,
    Margin,
    between,
    certain,
    together,
)
from attention_research.studies.row_comparisons import against, apart, compare, equivalent, near, no_worse
from attention_research.studies.study import CONDITION, FAILED, FIGURE, HELD, JUDGED, STATUSES, UNTESTED, Study

if TYPE_CHECKING:
    from attention_research.studies.results import Results

__all__ = [
    "CONDITION",
    "FAILED",
    "FIGURE",
    "HELD",
    "UNTESTED",
    "Case",
    "Comparison",
    "Verdict",
    "against",
    "apart",
    "between",
    "certain",
    "compare",
    "conclude",
    "decide",
    "equivalent",
    "every_seed",
    "judge",
    "margin_of",
    "near",
    "no_worse",
    "of_all_seeds",
    "together",
]


class Case(NamedTuple):
    """One case of a claim: its outcome, such as `comparisons.CLEAR`, and its numbers in words."""

    outcome: str
    numbers: str = ""

    @classmethod
    def compared(cls, comparison: Comparison) -> Case:
        """The case that a comparison decides."""
        return cls(comparison.outcome, comparison.numbers)

    @classmethod
    def ruled(cls, clear: bool | None, numbers: str = "") -> Case:
        """A case that a rule of the study decides. `clear` is None if the case was not measured."""
        return cls(UNMEASURED if clear is None else CLEAR if clear else OPEN, numbers)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A status of `STATUSES`, sentences about the claim as a whole, and its cases by name."""

    status: str
    said: str | Sequence[str] = ()
    cases: Mapping[str, Case] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status: expected one of {STATUSES}, got {self.status!r}")

    @property
    def sentences(self) -> list[str]:
        return [self.said] if isinstance(self.said, str) else [one for one in self.said if one]

    @property
    def because(self) -> str:
        """All reasons as one line: the sentences, then each case with its outcome and numbers."""
        cases = (f"{name}: {', '.join(filter(None, reversed(case)))}" for name, case in self.cases.items())
        return "; ".join([*self.sentences, *cases])

    @property
    def brief(self) -> str:
        """One line for a terminal: the reason if there is only one, else the first sentence, which counts the cases."""
        return self.because if len(self.cases) + len(self.sentences) < 2 else self.sentences[0]

    def beside(self, *said: str) -> Verdict:
        """The same verdict with more sentences."""
        return dataclasses.replace(self, said=[*self.sentences, *said])

    def but(self, status: str, *said: str) -> Verdict:
        """The same cases with another status and more sentences."""
        return dataclasses.replace(self.beside(*said), status=status)

    def under(self, condition: Sequence[str]) -> Verdict:
        """The verdict under a condition: a list of cases named in advance. Raises ConfigError for an unknown case."""
        if self.status == UNTESTED and not self.cases:
            return self
        unknown = [name for name in condition if name not in self.cases]
        if unknown:
            there = ", ".join(self.cases) or "none that can be named"
            raise ConfigError(f"condition {unknown[0]!r}: the claim has no such case; there are: {there}")
        if not condition or self.status == HELD or any(self.cases[name].outcome != CLEAR for name in condition):
            return self
        return self.but(CONDITION, f"held for {', '.join(condition)}, the condition named beforehand")


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim with its verdict.

    ``judged`` is True if claims are judged at this scale. ``computed`` is the status that the claim's function gave,
    also if the claim is not tested because the models have not learned their task. ``competence`` says whether they
    have (None: no model is trained).
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

    @property
    def shown(self) -> bool:
        """Whether the table shows the claim. A small scale leaves out most rows. A claim that is not judged there is
        shown only if one of its cases was measured."""
        return self.judged or any(case.outcome != UNMEASURED for case in self.verdict.cases.values())

    def to_json(self) -> dict[str, Any]:
        learned = self.competence[0].to_json() if self.competence else None
        texts = {"id": self.id, "claim": self.claim, "measurement": self.measurement, "status": self.status}
        said = {"computed": self.computed, "because": self.verdict.because, "brief": self.verdict.brief}
        return {**texts, **said, "judged": self.judged, "shown": self.shown, "competence": learned}


def conclude(
    cases: Mapping[str, Comparison], *, untested: Sequence[str] = (), condition: Sequence[str] = ()
) -> Verdict:
    """One verdict from named comparisons, with corrected p-values. `untested` names cases that were not measured.

    >>> from attention_research.studies.comparisons import between
    >>> found = between("scaled", "unscaled", [21.0, 20.6, 20.8], [19.9, 20.1, 19.7], "bleu", in_pairs=True)
    >>> conclude({"translation": found}).status
    'held'
    """
    compared = {name: Case.compared(case) for name, case in together(cases).items()}
    return decide({**compared, **dict.fromkeys(untested, Case(UNMEASURED))}).under(condition)


def every_seed(
    results: Results, rows: Mapping[str, str], key: str, rule: Callable[[Sequence[float]], Case]
) -> dict[str, Case]:
    """A case for each of these rows (id -> name) that the scale runs: what `rule` says of the numbers of its seeds.

    A row without any number is not measured. A row of which a run diverged does not hold. What holds for the finished
    seeds is not tested as long as planned seeds are missing (`of_all_seeds`).
    """
    run, cases = {row.id for row in results.study.rows_at(results.scale)}, {}
    for id, name in rows.items():
        values, lost = results.values(id, key), results.diverged(id)
        if id in run:
            case = rule(values) if values else Case(UNMEASURED)
            cases[name] = Case(OPEN, f"{lost} diverged") if lost else of_all_seeds(results, id, case)
    return cases


def of_all_seeds(results: Results, row: str, case: Case) -> Case:
    """A case about every seed of a row: if it holds for the finished seeds and others are missing, it is not tested."""
    entries = results.of(row)
    missing = sum(entry.result is None for entry in entries)
    if case.outcome != CLEAR or not missing:
        return case
    return Case(UNMEASURED, f"{case.numbers}, {missing} of {len(entries)} seeds missing")


def decide(cases: Mapping[str, Case], *said: str) -> Verdict:
    """Decides a claim from its cases, by the rules of this module. `said` are further sentences for the reader."""
    counts = Counter(case.outcome for case in cases.values())
    measured = len(cases) - counts[UNMEASURED]
    sentences = [_counted(counts) if cases else "nothing is measured", *said]
    if not measured:
        return Verdict(UNTESTED, sentences, cases)
    if counts[CLEAR] == len(cases):
        return Verdict(HELD, sentences, cases)
    return Verdict(UNTESTED if counts[CLEAR] == measured else FAILED, sentences, cases)


def _counted(counts: Mapping[str, int]) -> str:
    """How many of several cases hold, are reversed and are not tested, in words; empty for one case.

    >>> _counted({CLEAR: 3, OPEN: 5, REVERSED: 1}), _counted({CLEAR: 1, UNMEASURED: 1}), _counted({CLEAR: 1})
    ('3 of 9 cases hold, 1 is reversed', '1 of 2 cases holds, 1 is not tested', '')
    """
    total, clear = sum(counts.values()), counts.get(CLEAR, 0)
    if total < 2:
        return ""
    said = [f"{clear} of {total} cases {'holds' if clear == 1 else 'hold'}"]
    for outcome, word in ((REVERSED, "reversed"), (UNMEASURED, "not tested")):
        number = counts.get(outcome, 0)
        said += [f"{number} {'is' if number == 1 else 'are'} {word}"] if number else []
    return ", ".join(said)


def claims_of(study: Study) -> list[dict[str, str]]:
    """The claims that name the study, from its claims CSV, without those that are struck."""
    if study.claims is None:
        return []
    with open(study.file(study.claims), encoding="utf-8", newline="") as file:
        claims = [claim for claim in csv.DictReader(file) if study.name in claim["study"].split(";")]
    return [claim for claim in claims if not claim.get("struck")]


def margin_of(results: Results, claim: str) -> Margin | None:
    """The margin within which the rows of a claim count as equal; None if the claims CSV declares none."""
    return next((Margin.parse(one.get("margin") or "") for one in claims_of(results.study) if one["id"] == claim), None)


def _as_named(verdict: Verdict, claim: Mapping[str, str]) -> Verdict:
    """The verdict under the condition that the claims CSV names. Without one, a conditional verdict fails."""
    condition = [name.strip() for name in (claim.get("condition") or "").split(";") if name.strip()]
    if ";" in claim["study"] and not set(condition) & set(verdict.cases):
        condition = []  # its cases belong to the claim's other study
    try:
        verdict = verdict.under(condition)
    except ConfigError as error:
        raise ConfigError(f"claim {claim['id']}: {error}") from None
    if verdict.status != CONDITION or condition:
        return verdict
    return verdict.but(FAILED, "no condition was named beforehand")


def judge(results: Results) -> list[Judged]:
    """A verdict on every claim that names the study.

    A claim without a function is not tested, and neither is a claim about models that have not learned their task.
    """
    found = []
    for claim in claims_of(results.study):
        function = results.study.verdicts.get(claim["id"])
        untested = Verdict(UNTESTED, "no row of this study tests it yet")
        said = _as_named(function(competence.narrowed(results, claim)) if function else untested, claim)
        learned = competence.of_results(results, claim)
        refused = competence.refused(learned)
        verdict = Verdict(UNTESTED, refused) if refused and said.status != UNTESTED else said
        judged = results.scale in JUDGED
        found.append(Judged(claim["id"], claim["claim"], claim["measurement"], verdict, judged, said.status, learned))
    return found

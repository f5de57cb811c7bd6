"""Scores generated programs by their results: a hypothesis passes if it equals the reference on every test list.

Hypothesis and reference are functions of a list. `restricted_python` interprets them; the generated text is never
executed. The test lists are fixed, and the results of the reference are the expected ones. A correct program may differ
from the reference as text, so at least as many programs pass as are exact matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.tasks.evaluation import Scores, TextEvaluation
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric
from attention_research.tasks.restricted_python import Refused, Value, function_of

#: The lists on which programs are tested.
LISTS = (
    (),
    (7,),
    (-4, -1, -9),
    (3, 14, 15, 9, 2, 6, 5, 35, 8, 97, 93, 23),
    (-8, 27, 0, 12, -3, 5, 5, 18, -24, 40, 1, 6),
    (10, 10, 4, 16, 63, 72, 80, 90, 45, 56, 21, 2, -7, -100),
)


def results(program: str, lists: Sequence[Sequence[int]] = LISTS) -> list[Value] | None:
    """The results of a program on each list, or None if it is rejected or fails on one of them.

    >>> results("def f ( xs ) : return len ( xs )", [(), (4, 5)])
    [0, 2]
    """
    try:
        function = function_of(program)
        return [function(numbers) for numbers in lists]
    except Refused:
        return None


def program_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`exact_match` (equal tokens), `runs` (without failure on every list) and `passes` (equal results), in percent.

    Results of different types are different: True is not 1.
    """
    exact = runs = passes = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, theirs = results(hypothesis), results(reference)
        exact += hypothesis.split() == reference.split()
        runs += ours is not None
        passes += ours is not None and repr(ours) == repr(theirs)
    share = lambda count: 100.0 * count / max(1, len(references))
    return {"exact_match": share(exact), "runs": share(runs), "passes": share(passes)}


class ProgramEvaluation(TextEvaluation):
    """Compares generated programs with the references, by their text and by their results."""

    metrics = (
        PERPLEXITY,
        Metric("exact_match", "exact match, %", "higher", floors=(Floor("nearest_source", "nearest source"),)),
        Metric("runs", "run, %", "higher"),
        Metric("passes", "pass, %", "higher"),
    )

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """The scores of `program_scores`."""
        del sources
        return dict(program_scores(hypotheses, references))

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floor: the program of the nearest training description."""
        from attention_research.tasks.floors.written import program_floors

        return program_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        said = f"exact match {scores['exact_match']:.1f} %, run {scores['runs']:.1f} %, pass {scores['passes']:.1f} %"
        return f"programs: {said} · tested on {len(LISTS)} lists"

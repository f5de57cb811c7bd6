"""Programs scored by what they do: a hypothesis passes where it gives what the reference gives on every test list.

The test lists are fixed; hypothesis and reference are functions of a list (`restricted_python`, where nothing of them
is executed), and the reference's results are what is expected. Two programs may be written differently and both be
right, so that as many pass at least as are the reference word by word.
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
    """What a program gives of each list; None where it is refused or fails on one.

    >>> results("def f ( xs ) : return len ( xs )", [(), (4, 5)])
    [0, 2]
    """
    try:
        function = function_of(program)
        return [function(numbers) for numbers in lists]
    except Refused:
        return None


def program_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`exact_match` (token by token), `runs` (on every list) and `passes` (with the reference's results), in percent.

    A result of another type is another one: True is not 1.
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
    """Generated programs against the references, by their text and by their results."""

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
        """As `Evaluation.floors`: the program of the nearest training description."""
        from attention_research.tasks.floors.written import program_floors

        return program_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        said = f"exact match {scores['exact_match']:.1f} %, run {scores['runs']:.1f} %, pass {scores['passes']:.1f} %"
        return f"programs: {said} · tested on {len(LISTS)} lists"

"""Writes verdicts for people: as Markdown below a table, and as the rows of a table of cases."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attention_research.studies import competence
from attention_research.studies.comparisons import CLEAR, OPEN, REVERSED, UNMEASURED
from attention_research.studies.footnotes import markdown_table
from attention_research.studies.verdicts import Judged, Verdict

#: Outcome of a case -> its mark and its word.
MARKS = {CLEAR: "✓ holds", REVERSED: "✗ reversed", OPEN: "– not shown", UNMEASURED: "not tested"}


def cases(verdict: Verdict) -> list[tuple[str, str, str]]:
    """The cases of a verdict as (case, marked outcome, numbers).

    >>> from attention_research.studies.verdicts import Case
    >>> cases(Verdict("did not hold", cases={"small": Case(CLEAR, "loss 2 against 3"), "large": Case(UNMEASURED)}))
    [('small', '✓ holds', 'loss 2 against 3'), ('large', 'not tested', '')]
    """
    return [(name, MARKS[case.outcome], case.numbers) for name, case in verdict.cases.items()]


def markdown(name: str, scale: str, judged: Sequence[Judged]) -> str:
    """Every claim as Markdown: its verdict, whether the models have learned the task, and a table of its cases."""
    parts = [f"# {name} · {scale}: claims and verdicts"]
    for one in judged:
        parts += [f"## {one.id}: {one.status}", f"> {one.claim}", f"Measured: {one.measurement}."]
        parts.append("\n".join(competence.lines(one.competence)))
        if sentences := one.verdict.sentences:
            parts.append("\n".join(f"- {sentence}" for sentence in sentences))
        if found := cases(one.verdict):
            parts.append(markdown_table([["case", "outcome", "numbers"], *map(list, found)], left=(0, 1, 2)).rstrip())
    return "\n\n".join(parts) + "\n"


def below_a_table(text: str) -> str:
    """The text of `markdown` with its headings one level lower, for the page of a recorded table."""
    return re.sub("^#", "##", text, flags=re.MULTILINE)

"""The verdicts of `lectures/seq2seq_tasks`: each task against what is had without doing it."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    CONDITION,
    FAILED,
    HELD,
    UNTESTED,
    Verdict,
    against,
    conclude,
)

#: A cell of lengths is done where so many of its targets are right.
DONE = 0.9
#: So many outputs at least have to be trees, or programs that run.
MOSTLY = 90.0


def any_lengths(results: Results) -> Verdict:
    """Every cell of lengths is done, by the mean over seeds; some alone are the condition."""
    tables = results.values("lengths", "measure.cells")
    if not tables:
        return Verdict(UNTESTED, "exact match by lengths is not measured")
    rows, columns = range(len(tables[0])), range(len(tables[0][0]))
    known = {
        (row, column): statistics.fmean(found)
        for row in rows
        for column in columns
        if (found := [table[row][column] for table in tables if table[row][column] is not None])
    }
    done = [cell for cell, share in known.items() if share >= DONE]
    exact, unequal = (results.mean("lengths", f"measure.{name}") for name in ("exact", "exact_unequal"))
    because = (
        f"exact match {exact:.1%}, of pairs whose lengths differ {unequal:.1%}; {len(done)} of {len(known)} cells of "
        f"source and target length at {DONE:.0%} or more, the worst {min(known.values()):.1%}"
    )
    if len(done) == len(known):
        return Verdict(HELD, because)
    return Verdict(CONDITION if any(row != column for row, column in done) else FAILED, because)


def summarization(results: Results) -> Verdict:
    """ROUGE above the lead sentence's; the lead words' and that of the same titles with another's story are only said:
    they tell a title that is worse than copying from one that has nothing to do with its story."""
    kinds = ("rouge1", "rouge2", "rougeL")
    to = lambda floor, kind: against(results, "summaries", f"measure.{kind}", f"measure.{floor}_{kind}")
    verdict = conclude({f"{kind} against the lead sentence": to("lead", kind) for kind in kinds})
    beside = [to(floor, kind) for floor in ("words", "other") for kind in kinds]
    return verdict.beside(*(one.said for one in beside if one.gain is not None))


def dialogue(results: Results) -> Verdict:
    """The true reply is likelier after its own history than after another's."""
    return conclude({
        "perplexity of replies": against(results, "dialogue", "measure.own", "measure.shuffled", higher=False)
    })  # fmt: skip


def parsing(results: Results) -> Verdict:
    """F1 above that of one bracket, and nearly all outputs are trees; the first alone is a condition."""
    above = conclude({"labelled brackets": against(results, "parsing", "evaluate.f1", "evaluate.flat_f1")})
    malformed = results.values("parsing", "evaluate.malformed")
    if not malformed or above.status == UNTESTED:
        return above
    formed = 100 - statistics.fmean(malformed)
    because = f"{above.because}; {formed:.1f} % of the outputs are well-formed trees"
    return Verdict(CONDITION if above.status == HELD and formed < MOSTLY else above.status, because)


def code_generation(results: Results) -> Verdict:
    """More programs pass, and more are exactly the reference, than of the nearest descriptions; nearly all run, or
    that is the condition."""
    keys = ("exact_match", "passes")
    better = conclude({key: against(results, "code", f"measure.{key}", f"measure.nearest_{key}") for key in keys})
    runs = results.values("code", "measure.runs")
    if not runs or better.status == UNTESTED:
        return better
    because = f"{better.because}; {statistics.fmean(runs):.1f} % of the outputs run"
    return Verdict(CONDITION if better.status == HELD and statistics.fmean(runs) < MOSTLY else better.status, because)


VERDICTS = {
    "sequence-to-sequence-any-lengths": any_lengths,
    "task-summarization": summarization,
    "task-dialogue": dialogue,
    "task-parsing": parsing,
    "task-code-generation": code_generation,
}

"""The verdicts of `lectures/seq2seq_tasks`: each task against a baseline that does not solve it."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict, against, conclude

#: A cell of lengths counts as solved if at least this share of its targets is right.
DONE = 0.9
#: Clearly more than this percentage of outputs must be trees, or programs that run.
MOSTLY = 90.0


def any_lengths(results: Results) -> Verdict:
    """Every cell of lengths is solved, averaged over seeds."""
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
    said = (
        f"{len(done)} of {len(known)} cells of source and target length reach {DONE:.0%}",
        f"the worst has {min(known.values()):.1%}",
        f"exact match {exact:.1%}, for pairs whose lengths differ {unequal:.1%}",
    )
    return Verdict(HELD if len(done) == len(known) else FAILED, said)


def parsing(results: Results) -> Verdict:
    """F1 is above that of one bracket, and fewer than 10 % of the outputs are malformed."""
    return conclude({
        "labelled brackets": against(results, "parsing", "evaluate.f1", "evaluate.flat_f1"),
        "well-formed trees": against(results, "parsing", "evaluate.malformed", 100 - MOSTLY, higher=False),
    })  # fmt: skip


def code_generation(results: Results) -> Verdict:
    """More programs pass, and more equal the reference, than programs of the nearest descriptions, and more than 90 %
    run."""
    keys = ("exact_match", "passes")
    better = {key: against(results, "code", f"measure.{key}", f"measure.nearest_{key}") for key in keys}
    return conclude({**better, "programs that run": against(results, "code", "measure.runs", MOSTLY)})


VERDICTS = {
    "sequence-to-sequence-any-lengths": any_lengths,
    "task-parsing": parsing,
    "task-code-generation": code_generation,
}

"""Luong et al. 2015, Tables 4 and 6: perplexity, BLEU and alignment error rate by kind of attention and score function.

    attention-research reproduce luong2015/table4 --scale=cpu

All rows have dropout and input feeding. The paper's alignment error rate is for 508 English-German pairs aligned by
hand, which are not in our data. The generated rows translate sentences with gold alignments and local reordering; their
alignment error rates can only be compared with each other. The paper's cells are single runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.analysis.teacher_forced import measure_gold, measure_maps
from attention_research.studies import Budget, Row, Study, competence, evaluate, measure, train
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, heat_maps
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, apart, compare, conclude, decide, together

from ..raffel2017.systems import pronounces
from .systems import (
    CENTRE_DISTANCE,
    COLUMNS,
    GENERATED_HALF_WIDTH,
    HALF_WIDTH,
    LETTERS_HALF_WIDTH,
    LOCATION,
    OURS,
    attention,
    generated,
    printed,
    scales,
)

GENERATED = (train, evaluate, measure(measure_gold), measure(measure_maps, count=1))
#: The concat score as the paper ran it: the block of the matrix for the source state is the identity.
CONCAT = {"kind": "concat", "source_is_identity": True}
SCORES = {"dot": {"kind": "dot"}, "general": {"kind": "general"}, "concat": CONCAT}
PLACES = {"global": "global", "local_m": "local_monotonic", "local_p": "local_predictive"}


#: Kinds of attention with a row of generated sentences: all score functions of global attention, and the paper's rows
#: with an alignment error rate.
ALIGNED = (
    ("global", "dot"),
    ("global", "general"),
    ("global", "concat"),
    ("local_m", "general"),
    ("local_p", "general"),
)


def section(place: str, score: str, half_width: int) -> dict:
    """The section of an alignment."""
    return attention(PLACES[place], SCORES[score], None if place == "global" else half_width)


def row(place: str, score: str) -> Row:
    """A row on letters and sounds (and at `paper`)."""
    ours, paper = (section(place, score, half_width) for half_width in (LETTERS_HALF_WIDTH, HALF_WIDTH))
    return Row(f"{place}_{score}", f"{place.replace('_', '-')} ({score})",
               at={**dict.fromkeys(OURS, ours), "paper": paper})  # fmt: skip


def on_generated(one: Row, changes: dict) -> Row:
    """The row on generated sentences with the same alignment."""
    return generated(f"generated_{one.id}", one.name, changes, GENERATED, vocabulary=300)


LOCATED = Row("location", "global (location)", LOCATION)
TWINS = (
    on_generated(LOCATED, LOCATION),
    *(on_generated(row(*one), section(*one, GENERATED_HALF_WIDTH)) for one in ALIGNED),
)
ROWS = (
    LOCATED,
    *(row(place, score) for place in PLACES for score in SCORES),
    printed("ensemble", "8 models"),
    printed("berkeley", "Berkeley aligner"),
    *TWINS,
)


def _several_scores(results: Results) -> Iterator[tuple[str, str, list[str]]]:
    """(kind of attention, quality, rows) of each kind that the scale runs with at least two score functions."""
    run = {row.id for row in results.study.rows_at(results.scale)}
    for place in PLACES:
        for prefix, key in (("", "evaluate.perplexity"), ("generated_", "measure.alignment_error_rate")):
            planned = [row for score in SCORES if (row := f"{prefix}{place}_{score}") in run]
            if len(planned) > 1:
                yield prefix + place, key, planned


def scores_compared(results: Results) -> Verdict:
    """Score functions are interchangeable but differ in quality.

    They are interchangeable if each score function learns its task, with each kind of attention that has several of
    them. They differ if some two of them differ clearly in perplexity or alignment error rate. The claim holds if both
    are true.
    """
    cases, works, missing = {}, [], []
    for kind, key, planned in _several_scores(results):
        rows = [row for row in planned if results.values(row, key) or results.diverged(row)]
        missing += [row for row in planned if row not in rows]
        works += [
            not (results.diverged(row) or results.below_floor(row) or competence.refusal(results, row)) for row in rows
        ]
        if len(rows) > 1:
            cases[kind] = apart(results, rows, key)
    cases = together(cases)
    clear = [case.clear for case in cases.values() if case.clear is not None]
    if not clear:
        return Verdict(UNTESTED, [case.text for case in cases.values()] or "no two score functions were measured")
    numbers = f"{sum(works)} of {len(works)} rows have learned their task"
    numbers += f", {len(missing)} not measured" if missing else ""
    half = f"{sum(clear)} of {len(clear)} kinds of attention"
    learn = None if all(works) and missing else all(works)
    found = {"all learn": Case.ruled(learn, numbers), "they differ in quality": Case.ruled(any(clear), half)}
    return decide(found, *(case.text for case in cases.values()))


def location_aligns_worst(results: Results) -> Verdict:
    """Location attention has the worst alignment error rate."""
    return conclude({
        f"AER, {row} against location": compare(
            results, f"generated_{row}", "generated_location", "measure.alignment_error_rate"
        )
        for row in ("global_general", "local_m_general", "local_p_general")
    })  # fmt: skip


def predicted_windows(results: Results) -> Verdict:
    """Local-p is better than local-m if the word order differs from that of the source."""
    return conclude({
        "perplexity, generated, general": compare(
            results, "generated_local_p_general", "generated_local_m_general", "evaluate.perplexity"
        ),
        "AER, generated, general": compare(
            results, "generated_local_p_general", "generated_local_m_general", "measure.alignment_error_rate"
        ),
    })  # fmt: skip


def draw_maps(results: Results, folder: Path) -> Figure | None:
    """Draws the maps of the same generated sentence for every alignment, by the first finished seed of each."""
    maps = [
        {**one, "title": twin.name.removeprefix("generated: ")}
        for twin in TWINS
        for seed in results.values(twin.id, "measure.maps")[:1]
        for one in seed
    ]
    return heat_maps(results, folder / "alignments.png", maps, "a generated sentence and its reference")


STUDY = Study(
    rows=ROWS,
    scales=scales(("en", "de")),
    stages=(train, evaluate),
    columns=(
        *COLUMNS,
        Column("measure.alignment_error_rate", "AER (generated)", fixed(2), better="lower"),
        Column("measure.alignment_accuracy", "alignment accuracy", fixed(2), better="higher"),
        CENTRE_DISTANCE,
    ),
    budgets=(
        Budget("global_general"),
        Budget("generated_global_general", {"generated_global_general": tuple(twin.id for twin in TWINS)}),
    ),
    published="table4.csv",
    compared={"evaluate.perplexity": "perplexity"},
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence("generated_global_general", "evaluate.error_rate", line=10, rows=("generated_*",)),
        pronounces("global_general", "location", "global_*", "local_*", claims=("score-functions-compared",)),
    ),
    verdicts={
        "score-functions-compared": scores_compared,
        "must-hold-location-aligns-worst": location_aligns_worst,
        "must-hold-local-p-follows-reordering": predicted_windows,
    },
    figures=(draw_maps,),
)

"""Luong et al. 2015, Tables 4 and 6: perplexity, BLEU and alignment error rate by kind of attention and score function.

    attention-research reproduce luong2015/table4 --scale=cpu

All rows have dropout and input feeding. The paper's alignment error rate is for 508 English-German pairs aligned by
hand, which are not in our data. The generated rows translate sentences with gold alignments and local reordering; their
alignment error rates can only be compared with each other. The paper's cells are single runs.
"""

from __future__ import annotations

from pathlib import Path

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.analysis.teacher_forced import measure_gold, measure_maps
from attention_research.studies import Budget, Row, Study, evaluate, measure, train
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, heat_maps
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, apart, compare, conclude, decide, together

from .systems import (
    BLEU,
    CENTRE_DISTANCE,
    COLUMNS,
    GENERATED_HALF_WIDTH,
    HALF_WIDTH,
    LOCATION,
    OURS,
    VERSES,
    VERSES_HALF_WIDTH,
    WIDTHS,
    attention,
    generated,
    printed,
    scales,
)

SHORT = measure(by_length, edges=(4, 8, 12, 16, 21), longest=48)
GENERATED = (train, evaluate, SHORT, measure(measure_gold), measure(measure_maps, count=1))
#: The concat score as the paper ran it: the block of the matrix for the source state is the identity.
CONCAT = {"kind": "concat", "source_is_identity": True}
SCORES = {"dot": {"kind": "dot"}, "general": {"kind": "general"}, "concat": CONCAT}
PLACES = {"global": "global", "local_m": "local_monotonic", "local_p": "local_predictive"}


def widths(place: str, score: str) -> dict[int, dict]:
    """The section of an alignment, by half of the window."""
    return {w: attention(PLACES[place], SCORES[score], None if place == "global" else w) for w in WIDTHS}


def both(id: str, name: str, changes: dict[int, dict]) -> tuple[Row, Row]:
    """A row on verses (and at `paper`) and the same on generated sentences. `changes` are given by half of the
    window."""
    verses, paper, twin = (changes[w] for w in (VERSES_HALF_WIDTH, HALF_WIDTH, GENERATED_HALF_WIDTH))
    return (
        Row(id, name, at={**dict.fromkeys(OURS, verses), "paper": paper}),
        generated(f"generated_{id}", name, twin, GENERATED, vocabulary=300),
    )


PAIRS = (
    both("location", "global (location)", dict.fromkeys(WIDTHS, LOCATION)),
    *(
        both(f"{place}_{score}", f"{place.replace('_', '-')} ({score})", widths(place, score))
        for place in PLACES
        for score in SCORES
    ),
)
ROWS = (
    *(verses for verses, _ in PAIRS),
    printed("ensemble", "8 models"),
    printed("berkeley", "Berkeley aligner"),
    *(twin for _, twin in PAIRS),
)


def scores_compared(results: Results) -> Verdict:
    """Score functions are interchangeable but differ in quality.

    They are interchangeable if, for a kind of attention, every score function is better than its baselines. They differ
    if some two of them differ clearly in perplexity or alignment error rate. The claim holds if both are true.
    """
    cases, works = {}, []
    for place in PLACES:
        for prefix, key in (("", "evaluate.perplexity"), ("generated_", "measure.alignment_error_rate")):
            rows = [f"{prefix}{place}_{score}" for score in SCORES]
            rows = [row for row in rows if results.values(row, key)]
            works += [not results.untrained(row) for row in rows]
            if len(rows) > 1:
                cases[prefix + place] = apart(results, rows, key)
    cases = together(cases)
    clear = [case.clear for case in cases.values() if case.clear is not None]
    if not clear:
        return Verdict(UNTESTED, [case.text for case in cases.values()] or "no two score functions were measured")
    numbers = f"{sum(works)} of {len(works)} rows are better than their baselines"
    half = f"{sum(clear)} of {len(clear)} kinds of attention"
    found = {"all translate": Case.ruled(all(works), numbers), "they differ in quality": Case.ruled(any(clear), half)}
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
        for _, twin in PAIRS
        for seed in results.values(twin.id, "measure.maps")[:1]
        for one in seed
    ]
    return heat_maps(results, folder / "alignments.png", maps, "a generated sentence and its reference")


NOTE = (
    "Bible verses, English to German, are trained up to 32 word pieces. BLEU is that of test sentences of at most that "
    "length, greedy. Windows reach 5 pieces to each side, and 4 words in generated sentences (paper: 10 for up to 50 "
    "words). bleu.png uses all test sentences, cut to 32 pieces."
)
STUDY = Study(
    rows=ROWS,
    scales=scales("en", "de", NOTE),
    stages=(train, evaluate, VERSES),
    columns=(
        *COLUMNS,
        BLEU,
        Column("measure.alignment_error_rate", "AER (generated)", fixed(2), better="lower"),
        Column("measure.alignment_accuracy", "alignment accuracy", fixed(2), better="higher"),
        CENTRE_DISTANCE,
    ),
    budgets=(
        Budget("global_general"),
        Budget("generated_global_general", {"generated_global_general": tuple(twin.id for _, twin in PAIRS)}),
    ),
    published="table4.csv",
    compared={"evaluate.perplexity": "perplexity", "measure.bleu_fitting": "BLEU"},
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence("generated_global_general", "evaluate.bleu", line=90, higher=True, rows=("generated_*",)),
        Competence(
            "global_general",
            "evaluate.perplexity",
            "trigram",
            claims=("score-functions-compared",),
            rows=("location", "global_*", "local_*"),
        ),
    ),
    verdicts={
        "score-functions-compared": scores_compared,
        "must-hold-location-aligns-worst": location_aligns_worst,
        "must-hold-local-p-follows-reordering": predicted_windows,
    },
    figures=(draw_maps,),
)

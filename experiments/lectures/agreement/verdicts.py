"""The verdicts of `lectures/agreement`."""

from __future__ import annotations

import statistics

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Comparison, Verdict, against, compare, conclude, decide

#: The rows that attend to the source.
ATTENDING = {
    "rnnsearch_generated": "RNNsearch, generated",
    "transformer_generated": "Transformer, generated",
    "rnnsearch": "RNNsearch, verses",
    "transformer": "Transformer, verses",
}
MOST = (1, 2, 3)
#: Few words are enough if three of them keep this share of BLEU and hold more than half of the attention mass.
KEPT, HALF = 0.9, 0.5
#: The accuracy on gender may drop by at most this much with distance for the claim to hold.
LOST = 0.02


def few_words(results: Results) -> Verdict:
    """The top three words hold more than half of the attention mass and keep 90 % of BLEU in every seed of every
    row."""
    cases = {}
    for row, name in ATTENDING.items():
        masses, kept = ([results.values(row, f"measure.{key}_{k}") for k in MOST] for key in ("mass", "kept"))
        if not all(masses) or not all(kept):
            cases[name] = Case(UNMEASURED)
            continue
        mean = lambda lists, digits: ", ".join(f"{statistics.fmean(values):.{digits}f}" for values in lists)
        bleu, even = results.mean(row, "measure.bleu_whole"), results.mean(row, "measure.even_3")
        cases[name] = Case.ruled(
            min(masses[-1]) > HALF and min(kept[-1]) >= KEPT,
            f"mass of the top 1, 2, 3 words {mean(masses, 2)} (uniform weights on 3 words: {even:.2f}), BLEU "
            f"{bleu:.1f}, share kept with the top 1, 2, 3 words {mean(kept, 2)}",
        )
    return decide(cases)


def gender_at_distance(results: Results) -> Verdict:
    """The fixed-vector model is right less often for distant nouns than for near ones, and its accuracy drops more than
    that of either attention model. The attention models clearly lose less than `LOST`."""
    fixed = "encdec_generated"
    cases: dict[str, Comparison] = {
        "fixed vector, near against far": against(results, fixed, "measure.near", "measure.far")
    }
    for row in ("rnnsearch_generated", "transformer_generated"):
        name = ATTENDING[row].split(",")[0]
        cases[f"lost with distance, {name} against the fixed vector"] = compare(results, row, fixed, "measure.drop")
        cases[f"right where far, {name} against the fixed vector"] = compare(
            results, row, fixed, "measure.far", higher=True
        )
        cases[f"{name} keeps its accuracy"] = against(results, row, "measure.drop", LOST, higher=False)
    return conclude(cases)


VERDICTS = {
    "translation-needs-few-source-words": few_words,
    "gender-agreement-at-distance": gender_at_distance,
}

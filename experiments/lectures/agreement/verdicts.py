"""The verdicts of `lectures/agreement`."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    CONDITION,
    FAILED,
    HELD,
    UNTESTED,
    Comparison,
    Verdict,
    against,
    compare,
    conclude,
)

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
    """The top three words hold more than half of the attention mass and keep 90 % of BLEU in every seed of every row.

    If this is true for some rows only, the claim holds for these rows.
    """
    said, enough, measured = [], [], []
    for row, name in ATTENDING.items():
        masses, kept = ([results.values(row, f"measure.{key}_{k}") for k in MOST] for key in ("mass", "kept"))
        if not all(masses) or not all(kept):
            continue
        measured.append(name)
        mean = lambda lists, digits: ", ".join(f"{statistics.fmean(values):.{digits}f}" for values in lists)
        bleu, even = results.mean(row, "measure.bleu_whole"), results.mean(row, "measure.even_3")
        said.append(
            f"{name}: mass of the top 1, 2, 3 words {mean(masses, 2)} (uniform weights on 3 words: {even:.2f}), "
            f"BLEU {bleu:.1f}, share kept with the top 1, 2, 3 words {mean(kept, 2)}"
        )
        if min(masses[-1]) > HALF and min(kept[-1]) >= KEPT:
            enough.append(name)
    if not measured:
        return Verdict(UNTESTED, "the mass of attention is not measured")
    because = "; ".join(said)
    if len(enough) == len(ATTENDING):
        return Verdict(HELD, because)
    return Verdict(CONDITION, f"held for {', '.join(enough)}; {because}") if enough else Verdict(FAILED, because)


def gender_at_distance(results: Results) -> Verdict:
    """The fixed-vector model is right less often for distant nouns than for near ones, and its accuracy drops more than
    that of either attention model. The attention models lose at most `LOST`."""
    fixed = "encdec_generated"
    cases: dict[str, Comparison] = {
        "fixed vector, near against far": against(results, fixed, "measure.near", "measure.far")
    }
    lost = []
    for row in ("rnnsearch_generated", "transformer_generated"):
        name = ATTENDING[row].split(",")[0]
        cases[f"lost with distance, {name} against the fixed vector"] = compare(results, row, fixed, "measure.drop")
        cases[f"right where far, {name} against the fixed vector"] = compare(
            results, row, fixed, "measure.far", higher=True
        )
        lost += [(name, drop) for drop in [results.mean(row, "measure.drop")] if drop is not None]
    verdict = conclude(cases)
    verdict = verdict.beside(*(f"{name} loses {drop:.3f} with distance" for name, drop in lost))
    harder = [name for name, drop in lost if drop > LOST]
    if verdict.status == HELD and harder:
        return Verdict(FAILED, f"accuracy also drops with distance for {', '.join(harder)}; {verdict.because}")
    return verdict


VERDICTS = {
    "translation-needs-few-source-words": few_words,
    "gender-agreement-at-distance": gender_at_distance,
}

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
#: Few words are enough where three of them keep this share of the BLEU, and hold more than half of the mass.
KEPT, HALF = 0.9, 0.5
#: Of the gender that is right a model may lose so much with distance and still not find it harder.
LOST = 0.02


def few_words(results: Results) -> Verdict:
    """Three words hold more than half of each step's mass and keep nine tenths of the BLEU, in every seed of every
    row; the rows of which that is so are the condition."""
    said, enough, measured = [], [], []
    for row, name in ATTENDING.items():
        masses, kept = ([results.values(row, f"measure.{key}_{k}") for k in MOST] for key in ("mass", "kept"))
        if not all(masses) or not all(kept):
            continue
        measured.append(name)
        mean = lambda lists, digits: ", ".join(f"{statistics.fmean(values):.{digits}f}" for values in lists)
        bleu, even = results.mean(row, "measure.bleu_whole"), results.mean(row, "measure.even_3")
        said.append(
            f"{name}: mass on 1, 2, 3 words {mean(masses, 2)} (on 3 of even weights {even:.2f}), BLEU {bleu:.1f}, "
            f"of which 1, 2, 3 words keep {mean(kept, 2)}"
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
    """The fixed vector is right less often where the noun is far than where it is near, and loses more of it than
    either model with attention, which lose at most `LOST`."""
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
        return Verdict(FAILED, f"it gets harder for {', '.join(harder)}, too; {verdict.because}")
    return verdict


VERDICTS = {
    "translation-needs-few-source-words": few_words,
    "gender-agreement-at-distance": gender_at_distance,
}

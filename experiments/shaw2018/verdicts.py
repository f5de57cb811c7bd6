"""The verdicts of the three tables of Shaw et al. 2018; each says the printed cells beside ours."""

from __future__ import annotations

import dataclasses
import statistics

from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import (
    CONDITION,
    FAILED,
    HELD,
    UNTESTED,
    Comparison,
    Verdict,
    compare,
    conclude,
)

DISTANCES = (0, 1, 2, 4, 16, 64, 256)
PERPLEXITY, BLEU = "evaluate.perplexity", "evaluate.bleu"
PRINTED = "BLEU En-De"
#: What still counts as no more detail: this share of the perplexity at a limit (the paper's BLEU moves by 0.5 %).
FLAT = 0.03


def _both(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, PERPLEXITY),
        f"BLEU, {name}": compare(results, better, worse, BLEU, higher=True),
    }


def _beside(results: Results, verdict: Verdict) -> Verdict:
    """The verdict with the printed cells of its rows."""
    cells = published(results.study)
    said = [f"{row.name} {cells[row.id][PRINTED]}" for row in results.study.rows if PRINTED in cells.get(row.id, {})]
    return dataclasses.replace(verdict, because=f"{verdict.because}; printed: {', '.join(said)}") if said else verdict


def relative_helps(results: Results) -> Verdict:
    """Relative against absolute at both sizes; both together beside."""
    cases = {}
    for size in ("base", "big"):
        cases |= _both(results, f"{size}_relative", f"{size}_absolute", size)
    verdict = conclude(cases)
    for size in ("base", "big"):
        case = compare(results, f"{size}_both", f"{size}_relative", PERPLEXITY)
        if case.gain is not None:
            verdict = dataclasses.replace(verdict, because=f"{verdict.because}; {size}, both together: {case.text}")
    return _beside(results, verdict)


def clipping(results: Results) -> Verdict:
    """There is a k above 0 and below the largest past which no k is clearly better, nor by more than `FLAT`.

    Where k = 0 is no worse than that limit, positions do not matter to these models and the claim is empty.
    """
    means = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", PERPLEXITY))}
    there = [k for k in means if k > 0]
    if len(there) < 3 or 0 not in means:
        return Verdict(UNTESTED, "fewer than three distances above 0, or none at 0, are trained")
    said = "perplexity by k: " + ", ".join(f"{k}: {mean:.3g}" for k, mean in means.items())
    bleu = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", BLEU))}
    said += "; BLEU by k: " + ", ".join(f"{k}: {mean:.1f}" for k, mean in bleu.items()) if bleu else ""
    limit = next(k for k in there if not any(_better(results, means, other, k) for other in there if other > k))
    collapse = compare(results, f"k_{limit}", "k_0", PERPLEXITY)
    said += f"; k = {limit} against no positions: {collapse.text}"
    if limit == there[-1]:
        verdict = Verdict(FAILED, f"each k is bettered by a larger one; {said}")
    elif not collapse.clear:
        verdict = Verdict(CONDITION, f"flat, but from k = 0 on: these models do not need positions; {said}")
    else:
        verdict = Verdict(HELD, f"nothing is gained past k = {limit}; {said}")
    return _beside(results, verdict)


def _better(results: Results, means: dict[int, float], larger: int, smaller: int) -> bool:
    clear = compare(results, f"k_{larger}", f"k_{smaller}", PERPLEXITY).clear
    return bool(clear) or means[larger] < (1 - FLAT) * means[smaller]


def keys_or_values(results: Results) -> Verdict:
    """Each of keys, values and both against neither; keys against values beside."""
    cases = {}
    for id, name in (("both", "keys and values"), ("keys", "keys alone"), ("values", "values alone")):
        cases |= _both(results, id, "none", name)
    verdict = conclude(cases)
    case = compare(results, "keys", "values", PERPLEXITY)
    if case.gain is not None:
        verdict = dataclasses.replace(verdict, because=f"{verdict.because}; keys against values: {case.text}")
    return _beside(results, verdict)

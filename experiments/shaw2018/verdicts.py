"""The verdicts of the three tables of Shaw et al. 2018; each says the printed cells beside ours."""

from __future__ import annotations

import statistics

from attention_research.studies.comparisons import Margin
from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import (
    UNTESTED,
    Comparison,
    Verdict,
    compare,
    conclude,
    no_worse,
)

DISTANCES = (0, 1, 2, 4, 16, 64, 256)
PERPLEXITY, BLEU = "evaluate.perplexity", "evaluate.bleu"
PRINTED = "BLEU En-De"
#: A gain that still counts as none: this share of the perplexity (the paper's BLEU moves by 0.5 %).
FLAT = Margin(0.03, relative=True)
#: The distance past which more detail should not matter: from k = 2 on the paper sees no variation.
LIMIT = 2


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
    return verdict.beside(f"printed: {', '.join(said)}") if said else verdict


def relative_helps(results: Results) -> Verdict:
    """Relative against absolute at both sizes; both together beside."""
    cases = {}
    for size in ("base", "big"):
        cases |= _both(results, f"{size}_relative", f"{size}_absolute", size)
    verdict = conclude(cases)
    for size in ("base", "big"):
        case = compare(results, f"{size}_both", f"{size}_relative", PERPLEXITY)
        if case.gain is not None:
            verdict = verdict.beside(f"{size}, both together: {case.text}")
    return _beside(results, verdict)


def clipping(results: Results) -> Verdict:
    """Past `LIMIT` no larger k is better by as much as `FLAT`; and k = `LIMIT` is clearly better than k = 0, as else
    positions do not matter to these models and the claim is empty."""
    means = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", PERPLEXITY))}
    if not {0, LIMIT} <= means.keys():
        return Verdict(UNTESTED, f"k = 0 or k = {LIMIT} is not trained")
    limit = f"k_{LIMIT}"
    cases = {f"k = {LIMIT} against no positions": compare(results, limit, "k_0", PERPLEXITY)}
    for k in DISTANCES:
        if k > LIMIT:
            cases[f"k = {LIMIT} against {k}"] = no_worse(results, limit, f"k_{k}", PERPLEXITY, FLAT)
    bleu = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", BLEU))}
    said = ["perplexity by k: " + ", ".join(f"{k}: {mean:.3g}" for k, mean in means.items())]
    said += ["BLEU by k: " + ", ".join(f"{k}: {mean:.1f}" for k, mean in bleu.items())] if bleu else []
    return _beside(results, conclude(cases).beside(*said))


def keys_or_values(results: Results) -> Verdict:
    """Each of keys, values and both against neither; keys against values beside."""
    cases = {}
    for id, name in (("both", "keys and values"), ("keys", "keys alone"), ("values", "values alone")):
        cases |= _both(results, id, "none", name)
    verdict = conclude(cases)
    case = compare(results, "keys", "values", PERPLEXITY)
    if case.gain is not None:
        verdict = verdict.beside(f"keys against values: {case.text}")
    return _beside(results, verdict)

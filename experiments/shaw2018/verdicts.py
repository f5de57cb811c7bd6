"""The verdicts of the three tables of Shaw et al. 2018. Each text also gives the published cells."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import UNTESTED, Comparison, Verdict, compare, conclude, margin_of, no_worse

DISTANCES = (0, 1, 2, 4, 16, 64, 256)
PERPLEXITY, BLEU = "evaluate.perplexity", "evaluate.bleu"
PRINTED = "BLEU En-De"
#: The clipping distance beyond which larger distances should not matter. The paper sees no variation from k = 2 on.
LIMIT = 2


def _both(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Compares perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, PERPLEXITY),
        f"BLEU, {name}": compare(results, better, worse, BLEU, higher=True),
    }


def _beside(results: Results, verdict: Verdict) -> Verdict:
    """Returns the verdict with the published cells of its rows."""
    cells = published(results.study)
    said = [f"{row.name} {cells[row.id][PRINTED]}" for row in results.study.rows if PRINTED in cells.get(row.id, {})]
    return verdict.beside(f"published: {', '.join(said)}") if said else verdict


def relative_helps(results: Results) -> Verdict:
    """Relative positions are better than absolute ones at both sizes. The text also gives both together."""
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
    """No larger k is better than k = `LIMIT` by as much as the margin of the claim, and k = `LIMIT` is clearly better
    than k = 0. The BLEU of the paper varies by 0.5 %.

    Only the k that the scale runs count. Without the second condition positions would not matter to these models, and
    the claim would be empty.
    """
    means = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", PERPLEXITY))}
    if not {0, LIMIT} <= means.keys():
        return Verdict(UNTESTED, f"k = 0 or k = {LIMIT} is not trained")
    limit, run = f"k_{LIMIT}", {row.id for row in results.study.rows_at(results.scale)}
    margin = margin_of(results, "relative-clipping-distance")
    cases = {f"k = {LIMIT} against no positions": compare(results, limit, "k_0", PERPLEXITY)}
    for k in DISTANCES:
        if k > LIMIT and f"k_{k}" in run:
            cases[f"k = {LIMIT} against {k}"] = no_worse(results, limit, f"k_{k}", PERPLEXITY, margin)
    bleu = {k: statistics.fmean(values) for k in DISTANCES if (values := results.values(f"k_{k}", BLEU))}
    said = ["perplexity by k: " + ", ".join(f"{k}: {mean:.3g}" for k, mean in means.items())]
    said += ["BLEU by k: " + ", ".join(f"{k}: {mean:.1f}" for k, mean in bleu.items())] if bleu else []
    return _beside(results, conclude(cases).beside(*said))


def keys_or_values(results: Results) -> Verdict:
    """Keys, values and both are each better than neither. The text also compares keys with values."""
    cases = {}
    for id, name in (("both", "keys and values"), ("keys", "keys alone"), ("values", "values alone")):
        cases |= _both(results, id, "none", name)
    verdict = conclude(cases)
    case = compare(results, "keys", "values", PERPLEXITY)
    if case.gain is not None:
        verdict = verdict.beside(f"keys against values: {case.text}")
    return _beside(results, verdict)

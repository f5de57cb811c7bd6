"""The verdicts of `lectures/static_attention`."""

from __future__ import annotations

import math
import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    FAILED,
    FIGURE,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    between,
    compare,
    conclude,
    decide,
)

from .figures import POOLINGS, REAL, SETS

ACCURACY = "measure.accuracy"


def formula(results: Results) -> Verdict:
    """The TF-IDF formula equals scikit-learn's (norm=None, smooth_idf=False) minus the count."""
    found = [value for set_ in REAL for value in results.values(f"{set_}_bag_of_words", "measure.formula_difference")]
    if not found:
        return Verdict(UNTESTED, "the rows were not run")
    largest = max(found)
    said = (
        f"largest difference from TfidfTransformer(norm=None, smooth_idf=False) minus the count: {largest:.1e}; with "
        "its defaults scikit-learn uses another formula (log((1 + N) / (1 + df)) + 1, texts normalized to length 1)"
    )
    return Verdict(HELD if largest < 1e-9 else FAILED, said)


def static(results: Results) -> Verdict:
    """The accuracy of IDF and TF-IDF weights is above that of uniform weights."""
    cases = {
        f"{SETS[set_]}, {POOLINGS[kind]}": compare(results, f"{set_}_{kind}", f"{set_}_mean", ACCURACY, higher=True)
        for set_ in SETS
        for kind in (("idf", "tf_idf") if set_ in REAL else ("idf",))
    }
    return conclude(cases)


def rarer(results: Results) -> Verdict:
    """The IDF of a term that is in all texts is 0, and IDF has a positive rank correlation with the information of a
    term about the label, by text and by occurrence."""
    cases, zero = {}, []
    for set_ in REAL:
        row = f"{set_}_bag_of_words"
        zero += results.values(row, "measure.idf_of_all_texts")
        for name, unit in (("text", "a text (mutual information)"), ("occurrence", "a text that holds it, held out")):
            rho = next(iter(results.values(row, f"measure.{name}_bits_correlation")), None)
            cases[f"{SETS[set_]}, bits of {unit}"] = (
                Case.ruled(None) if rho is None else Case.ruled(rho > 0, f"rank correlation with IDF {rho:+.2f}")
            )
    if not zero:
        return Verdict(UNTESTED, "the bag-of-words rows were not run")
    largest = max(zero, default=math.nan)
    return decide({**cases, "IDF of a term in all texts": Case.ruled(largest == 0, f"{largest:g}")})


def adaptive(results: Results) -> Verdict:
    """Learned weights give a higher accuracy than static ones, correlate more with the information of words than with
    their IDF, and differ more between the two tasks than IDF does."""
    cases = {}
    for set_ in SETS:
        for kind in ("token_weight", "query"):
            case = compare(results, f"{set_}_{kind}", f"{set_}_idf", ACCURACY, higher=True)
            cases[f"{SETS[set_]}, {POOLINGS[kind]} against IDF"] = case
    for set_ in REAL:
        bits, idf = (results.values(f"{set_}_token_weight", f"measure.{name}_correlation") for name in ("bits", "idf"))
        case = between("bits", "IDF", bits, idf, "rank correlation of weights", in_pairs=True)
        cases[f"{SETS[set_]}, learned weights go with what words tell more than with IDF"] = case
    learned, fixed_ = (_agreement(results, kind) for kind in ("token_weight", "idf"))
    cases["agreement of IMDB's and BBC's weights"] = between("IDF", "learned", fixed_, learned, "rank correlation")
    return conclude(cases)


def _agreement(results: Results, kind: str) -> list[float]:
    """For each seed, the rank correlation of two tasks' weights over the words that both have."""
    import numpy as np

    from .token_weights import rank_correlation

    found = []
    pairs = zip(*(results.values(f"{set_}_{kind}", "measure.weight_of") for set_ in REAL), strict=False)
    for first, second in pairs:
        words = [word for word in first if word in second]
        if len(words) > 2:
            found.append(rank_correlation(*(np.asarray([side[word] for word in words]) for side in (first, second))))
    return found


def pictures(results: Results) -> Verdict:
    """Describes the figures. They decide nothing."""
    shown = [row for row in results.rows if any(results.values(row.id, "measure.terms"))]
    if not shown:
        return Verdict(UNTESTED, "no row with term weights was run")
    said = []
    for row in shown:
        rho = results.values(row.id, "measure.idf_correlation")
        if rho and row.id.endswith(("token_weight", "query")):
            said.append(f"{row.name}: rank correlation with IDF {statistics.fmean(rho):+.2f}")
    return Verdict(FIGURE, [f"weights.png and marked.png show {len(shown)} rows", *said])


VERDICTS = {
    "tfidf-formula": formula,
    "tfidf-is-static-attention": static,
    "rarer-terms-more-informative": rarer,
    "adaptive-weights-task-specific": adaptive,
    "token-weights-figure": pictures,
}

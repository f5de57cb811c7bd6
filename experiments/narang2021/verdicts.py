"""The verdicts on the lectures' claims about the table, from its values here."""

from __future__ import annotations

import csv
from pathlib import Path

from attention_research.studies.comparisons import NO_MARGIN
from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import (
    FAILED,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    compare,
    conclude,
    decide,
    margin_of,
    no_worse,
    together,
)

from .answer import BASELINE, FINAL, faster

GATED = ("geglu", "swiglu", "reglu", "liglu")
WORSE = ("rezero", "fixup")
SHARED = ("block_sharing", "decoder_only_block_sharing", "factorized_shared_embeddings")
INSTEAD = ("dynamic_convolution", "lightweight_convolution", "synthesizer_dense", "synthesizer_random")
BESIDE = ("synthesizer_dense_plus", "synthesizer_dense_plus_alpha", "synthesizer_random_plus",
          "synthesizer_random_plus_alpha")  # fmt: skip
EXPERTS = ("mixture_of_experts", "switch_transformer")
#: The rows of the cases, which have several seeds at `cpu`. They were chosen before a number was seen.
CLAIMED = (BASELINE, *GATED, "rms_norm", *WORSE, *SHARED, *INSTEAD, *EXPERTS)


def counts(results: Results) -> Verdict:
    """The counts of `inspect` at the paper's sizes (`counts.csv`) give the published cells."""
    with open(Path(__file__).with_name("counts.csv"), encoding="utf-8", newline="") as file:
        counted = {row["row"]: row for row in csv.DictReader(file)}
    printed = published(results.study)
    near = sum(abs(int(counted[row]["parameters"]) / 223e6 - 1) < 0.02 for row in printed)
    at = sum(f"{float(counted[row]['operations']):.1f}" == "11.1" for row in printed)
    same = sum(bool(counted[row]["operations_rules"]) for row in printed)
    cases = {
        "parameters": Case.ruled(near > len(printed) / 2, f"{near} of {len(printed)} rows are within 2 % of 223M"),
        "operations": Case.ruled(at > len(printed) / 2, f"{at} of {len(printed)} rows have 11.1T"),
    }
    return decide(cases, f"{same} rows equal the paper's cell")


def most_do_not_help(results: Results) -> Verdict:
    """The baseline's final loss is not worse than that of more than half of all changed rows, within the margin of the
    claim and corrected for the number of rows. That a row is not clearly better is not evidence, because there are few
    seeds. Rows with one seed do not count; if they could turn the verdict, the claim is not tested.

    The margin, 0.01 nats, is twice the published standard deviation of the baseline's early loss (0.005).
    """
    margin, printed = margin_of(results, "narang-most-do-not-help"), published(results.study)
    changed = [row for row in printed if row != BASELINE]
    rows = [row for row in changed if len(results.values(row, FINAL)) > 1]
    if not rows or len(results.values(BASELINE, FINAL)) < 2:
        return Verdict(UNTESTED, "no row except the baseline has two seeds")
    base = float(printed[BASELINE]["final loss"])
    theirs = sum(float(cells["final loss"]) < base for row, cells in printed.items() if row != BASELINE)
    gains = together({row: compare(results, row, BASELINE, FINAL) for row in rows})
    even = together({row: no_worse(results, BASELINE, row, FINAL, margin) for row in rows})
    better = [row for row, case in gains.items() if case.clear]
    said = [
        f"{len(better)} of {len(rows)} rows are clearly better{': ' if better else ''}{', '.join(better)}",
        f"{sum(case.gain > 0 for case in gains.values())} have a lower mean",
        f"in the paper {theirs} of {len(printed) - 1} have a lower final loss",
    ]
    if margin is None:
        return Verdict(UNTESTED, [f"{NO_MARGIN} within which a gain counts as none", *said])
    none = sum(bool(case.clear) for case in even.values())
    others = len(changed) - len(rows)
    gain = f"{none} of {len(rows)} rows gain less than {margin}, {others} have fewer than two seeds"
    most = len(changed) / 2
    status = HELD if none > most else UNTESTED if none + others > most else FAILED
    return Verdict(status, [gain, *said])


def gated_are_better(results: Results) -> Verdict:
    """Each gated row is better than the baseline."""
    return conclude({row: compare(results, row, BASELINE, FINAL) for row in GATED})


def norms_and_starts(results: Results) -> Verdict:
    """RMSNorm is faster and better than the baseline; ReZero and Fixup are worse.

    The text also gives the rows with Adam, which have one seed at `cpu`.
    """
    cases = {
        "RMSNorm faster": faster(results, "rms_norm", BASELINE),
        "RMSNorm better": compare(results, "rms_norm", BASELINE, FINAL),
    }
    adam = [compare(results, f"{row}_adam", f"{BASELINE}_adam", FINAL).said for row in WORSE]
    verdict = conclude(cases | {f"{row} worse": compare(results, BASELINE, row, FINAL) for row in WORSE})
    return verdict.beside(f"all with Adam: {'; '.join(adam)}")


def sharing_costs(results: Results) -> Verdict:
    """The baseline is better than rows with fewer parameters by sharing or factorization."""
    return conclude({row: compare(results, BASELINE, row, FINAL) for row in SHARED})


def mixers(results: Results) -> Verdict:
    """Mixers that replace attention are worse than the baseline.

    The text also gives those in addition to attention, which should be about equal; this cannot be shown to be clear.
    """
    cases = {f"{row} worse": compare(results, BASELINE, row, FINAL) for row in INSTEAD}
    even = "; ".join(compare(results, row, BASELINE, FINAL).said for row in BESIDE)
    return conclude(cases).beside(f"beside attention: {even}")


def experts(results: Results) -> Verdict:
    """At equal operations, experts have lower losses."""
    return conclude({row: compare(results, row, BASELINE, FINAL) for row in EXPERTS})


VERDICTS = {
    "narang-counts": counts,
    "narang-most-do-not-help": most_do_not_help,
    "narang-glu-family-helps": gated_are_better,
    "narang-norms-and-inits": norms_and_starts,
    "narang-sharing-costs": sharing_costs,
    "narang-mixers-and-convolutions": mixers,
    "narang-sparse-experts": experts,
}

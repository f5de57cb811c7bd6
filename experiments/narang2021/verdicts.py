"""What the lectures claim of the table, judged by its numbers here."""

from __future__ import annotations

import csv
from pathlib import Path

from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict, compare, conclude

from .answer import BASELINE, FINAL, better, differences, faster

GATED = ("geglu", "swiglu", "reglu", "liglu")
SHARED = (
    "block_sharing", "encoder_only_block_sharing", "decoder_only_block_sharing", "plus_factorized_embeddings",
    "plus_factorized_shared_embeddings", "factorized_embedding", "factorized_shared_embeddings",
)  # fmt: skip
INSTEAD = (
    "dynamic_convolution", "lightweight_convolution", "synthesizer_dense", "synthesizer_factorized",
    "synthesizer_random",
)  # fmt: skip
BESIDE = ("synthesizer_dense_plus", "synthesizer_dense_plus_alpha", "synthesizer_random_plus",
          "synthesizer_random_plus_alpha")  # fmt: skip
EXPERTS = ("mixture_of_experts", "switch_transformer")


def counts(results: Results) -> Verdict:
    """Of what `inspect` counted at the paper's sizes (`counts.csv`) and of the printed cells."""
    with open(Path(__file__).with_name("counts.csv"), encoding="utf-8", newline="") as file:
        counted = {row["row"]: row for row in csv.DictReader(file)}
    printed = published(results.study)
    near = sum(abs(int(counted[row]["parameters"]) / 223e6 - 1) < 0.02 for row in printed)
    at = sum(f"{float(counted[row]['operations']):.1f}" == "11.1" for row in printed)
    same = sum(bool(counted[row]["operations_rules"]) for row in printed)
    because = f"{near} of {len(printed)} rows are within 2 % of 223M, {at} have 11.1T; {same} print the paper's cell"
    return Verdict(HELD if min(near, at) > len(printed) / 2 else FAILED, because)


def most_do_not_help(results: Results) -> Verdict:
    """Final loss, paired over seeds, corrected for as many rows as there are."""
    found, printed = differences(results), published(results.study)
    if not found:
        return Verdict(UNTESTED, "no row beside the baseline has two seeds")
    base = float(printed[BASELINE]["final_loss"])
    theirs = sum(float(cells["final_loss"]) < base for row, cells in printed.items() if row != BASELINE)
    lower, clear = sum(one.mean < 0 for one in found.values()), better(results)
    because = (
        f"{len(clear)} of {len(found)} rows are better beyond the spread{': ' if clear else ''}{', '.join(clear)}; "
        f"{lower} have a lower mean; in print {theirs} of {len(printed) - 1} have a lower final loss"
    )
    return Verdict(HELD if len(clear) < len(found) / 2 else FAILED, because)


def gated_are_better(results: Results) -> Verdict:
    """Each gated row against the baseline."""
    return conclude({row: compare(results, row, BASELINE, FINAL) for row in GATED})


def norms_and_starts(results: Results) -> Verdict:
    """RMSNorm faster and better, ReZero and Fixup worse."""
    cases = {
        "RMSNorm faster": faster(results, "rms_norm", BASELINE),
        "RMSNorm better": compare(results, "rms_norm", BASELINE, FINAL),
    }
    worse = ("rezero", "rezero_plus_layernorm", "rezero_plus_rms_norm", "fixup")
    return conclude(cases | {f"{row} worse": compare(results, BASELINE, row, FINAL) for row in worse})


def sharing_costs(results: Results) -> Verdict:
    """The baseline against every row with fewer parameters by sharing or factors."""
    return conclude({row: compare(results, BASELINE, row, FINAL) for row in SHARED})


def mixers(results: Results) -> Verdict:
    """In place of attention: worse. Beside it: about even, which is told and cannot be clear."""
    cases = {f"{row} worse": compare(results, BASELINE, row, FINAL) for row in INSTEAD}
    even = "; ".join(compare(results, row, BASELINE, FINAL).text for row in BESIDE)
    verdict = conclude(cases)
    return Verdict(verdict.status, f"{verdict.because}; beside attention: {even}")


def experts(results: Results) -> Verdict:
    """At equal operations, lower losses."""
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

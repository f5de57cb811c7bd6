"""Raffel et al. 2017: monotonic attention with online decoding: pronunciation, inflection, generated translation.

    attention-research reproduce raffel2017/online --scale=cpu

The paper's speech data (TIMIT, WSJ) are licensed, and its tables were not available: the published cells are those that
Chiu & Raffel 2018 quote. Here the task with a monotonic alignment is the CMU Pronouncing Dictionary. There are also
generated sentences in the order of the source, with adjectives and adverbs moved, and in reversed order, and French
verbs to inflect (`inflection/fr`).

All models have the same encoder and decoder, which support online decoding: a forward GRU and a decoder that starts
from zeros, so that a target token does not depend on source tokens after the one at which it was generated. Monotonic
models are trained in expectation and scored with hard stops, as they are used ("hard" in the paper).
"""

from __future__ import annotations

import statistics

from attention_research.studies import Budget, Row, Study
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    Case,
    Comparison,
    Verdict,
    between,
    compare,
    conclude,
    decide,
    every_seed,
    margin_of,
    no_worse,
)

from .alignments import ALIGNMENTS
from .online_figures import lags, samples
from .systems import (
    AVERAGE_LAG,
    BLEU,
    ERROR_RATE,
    ONLINE_EQUAL,
    SEQUENCES_WRONG,
    STAGES,
    TASKS,
    pronounces,
    row,
    scales,
)

TRIED = {
    "sounds": tuple(ALIGNMENTS),
    "monotone": ("soft", "monotonic", "mocha"),
    "local": ("soft", "monotonic", "mocha"),
    "reversed": ("soft", "monotonic"),
    "inflection": ("soft", "monotonic"),
}
PRINTED = (
    Row("wsj_ctc", "Raffel et al. 2017, WSJ: CTC", scales=()),
    Row("wsj_monotonic", "Raffel et al. 2017, WSJ: monotonic", scales=()),
)
OURS = tuple(
    row(task, id, name, kind, **settings)
    for task, tried in TRIED.items()
    for id, (name, kind, settings) in ALIGNMENTS.items()
    if id in tried
)
ROWS = (*OURS, *PRINTED)
#: Row id -> name of the rows with an online form.
MONOTONIC = {one.id: one.name for one in OURS if not one.id.endswith("_soft")}


def _lost(results: Results, task: str, alignment: str, claim: str) -> Comparison:
    """The error rate of an alignment is above that of soft attention by less than the margin of the claim.

    It is not tested if one of the two is no better than a baseline.
    """
    rows = f"{task}_{alignment}", f"{task}_soft"
    found = no_worse(results, *rows, "evaluate.error_rate", margin_of(results, claim))
    below = [row for row in rows if results.below_floor(row)]
    if not below:
        return found
    return Comparison(*rows, found.gain, f"{found.said}, {' and '.join(below)} no better than a baseline")


def same_order(results: Results) -> Verdict:
    """Hard monotonic attention is within a point of soft attention if source and target have the same order.

    The text also gives what it loses on other tasks.
    """
    claim = "monotonic-same-order"
    cases = {TASKS[task][0]: _lost(results, task, "monotonic", claim) for task in ("sounds", "monotone")}
    other = (_lost(results, task, "monotonic", claim).said for task in ("local", "reversed"))
    return conclude(cases).beside(*other)


def reads_on(results: Results) -> Verdict:
    """In every monotonic row, online decoding gives the same outputs, and a part of the output before the source
    ends."""
    cases = {}
    for id, name in MONOTONIC.items():
        before, lag = (results.values(id, f"measure.{key}") for key in ("written_before_the_end", "average_lag"))
        rule = lambda alike, before=before, lag=lag: Case.ruled(
            min(alike) == 1.0 and min(before) > 0.0,
            f"{100 * min(alike):.1f} % equal, {100 * statistics.fmean(before):.0f} % of the tokens before the end, "
            f"average lag {statistics.fmean(lag):.1f}",
        )
        cases |= every_seed(results, {id: name}, "measure.online_equal", rule)
    return decide(cases)


def speech_like(results: Results) -> Verdict:
    """The phoneme error rate of monotonic attention is within a point of soft attention. Speech itself is not
    tested."""
    lost = lambda alignment: _lost(results, "sounds", alignment, "monotonic-speech")
    return conclude({"letters to sounds": lost("monotonic")}, untested=("speech itself",)).beside(lost("mocha").said)


def incremental(results: Results) -> Verdict:
    """BLEU is within a point of soft attention at a shorter lag, on generated translations with moved words."""
    cases, margin = {}, margin_of(results, "monotonic-incremental-translation")
    for alignment in ("monotonic", "mocha"):
        rows = f"local_{alignment}", "local_soft"
        name = ALIGNMENTS[alignment][0]
        cases[f"BLEU, {name}"] = no_worse(results, *rows, "measure.bleu", margin, higher=True)
        cases[f"lag, {name}"] = compare(results, *rows, "measure.average_lag")
    return conclude(cases)


def inflects(results: Results) -> Verdict:
    """Hard monotonic attention writes at most a point more wrong forms of verbs than soft attention.

    Summarization is not tested. The text gives the share of the steps of soft attention that go forward, by task.
    """
    margin = margin_of(results, "monotonic-inflection-summarization")
    forms = no_worse(results, "inflection_monotonic", "inflection_soft", "evaluate.word_error_rate", margin)
    said = [
        f"{name}: {100 * forward:.0f} % of the steps of soft attention go forward"
        for task, (name, _) in TASKS.items()
        if (forward := results.mean(f"{task}_soft", "measure.monotone_steps")) is not None
    ]
    return conclude({"inflection": forms}, untested=("summarization",)).beside(*said)


def noise_helps(results: Results) -> Verdict:
    """With noise, the loss with hard stops is closer to the expected loss than without noise."""
    gaps = {}
    for id in ("sounds_monotonic", "sounds_no_noise"):
        hard, soft = (results.values(id, f"measure.{key}") for key in ("hard_loss", "soft_loss"))
        gaps[id] = [one - other for one, other in zip(hard, soft, strict=True)]
    case = between("with noise", "without", *gaps.values(), "loss, hard minus expected", higher=False)
    return conclude({"loss": case})


def _at_most(results: Results, key: str, bound: float) -> Verdict:
    """Every value of every seed is at most `bound`, for each monotonic row."""
    rule = lambda values: Case.ruled(max(values) <= bound, f"at most {max(values):.2g}")
    return decide(every_seed(results, MONOTONIC, f"measure.{key}", rule))


def forms_agree(results: Results) -> Verdict:
    """The recursive and the parallel form of the expected alignment agree in every trained model."""
    return _at_most(results, "mode_difference", 1e-4)


def linear_time(results: Results) -> Verdict:
    """The number of energies in online decoding is linear in the length, in every trained model."""
    return _at_most(results, "energies", 1.0)


NOTE = (
    "Error rate: of phonemes (held-out words of the dictionary) or of words (generated sentences); it cannot be "
    "compared with that on WSJ. The lag of a model that is not monotonic is the source length."
)
STUDY = Study(
    rows=ROWS,
    scales=scales(NOTE, gpu_seeds=3),
    stages=STAGES,
    columns=(
        PARAMETERS,
        LOSS,
        ERROR_RATE,
        SEQUENCES_WRONG,
        BLEU,
        AVERAGE_LAG,
        Column("measure.written_before_the_end", "generated before source end, %", fixed(0, 100)),
        ONLINE_EQUAL,
        Column("measure.energies", "energies per token", fixed(2)),
        Column("measure.hard_loss", "loss, hard", fixed(3), better="lower"),
        Column("measure.soft_loss", "loss, expected", fixed(3), better="lower"),
        Column("measure.mode_difference", "difference of parallel form", lambda value: f"{value:.1e}"),
        Column("measure.monotone_steps", "forward steps, %", fixed(1, 100)),
        Column("measure.alignment_error_rate", "AER", fixed(2), better="lower"),
    ),
    budgets=(
        Budget("sounds_soft", {"sounds_monotonic": ("sounds_no_noise", "sounds_parallel"), "sounds_mocha": ()}),
        Budget(
            "local_soft",
            {
                "local_soft": ("monotone_soft", "reversed_soft"),
                "local_monotonic": ("monotone_monotonic", "reversed_monotonic"),
                "local_mocha": ("monotone_mocha",),
            },
        ),
    ),
    published="online.csv",
    claims="../claims.csv",
    figures=(samples, lags),
    # Pronunciation must be 15 points better than one phoneme for each letter. Generated sentences have exactly one
    # correct translation.
    competence=(
        pronounces("sounds_soft", "sounds_*"),
        Competence("monotone_soft", "evaluate.error_rate", line=10, rows=("monotone_*",)),
        Competence("local_soft", "evaluate.error_rate", line=10, rows=("local_*",)),
        Competence("reversed_soft", "evaluate.error_rate", line=10, rows=("reversed_*",)),
        Competence(
            "inflection_soft",
            "evaluate.error_rate",
            "token_by_token",
            margin=15,
            claims=("monotonic-inflection-summarization",),
            rows=("inflection_*",),
        ),
    ),
    verdicts={
        "monotonic-same-order": same_order,
        "monotonic-read-more-decisions": reads_on,
        "monotonic-speech": speech_like,
        "monotonic-incremental-translation": incremental,
        "monotonic-inflection-summarization": inflects,
        "must-hold-noise-closes-the-gap": noise_helps,
        "must-hold-forms-agree": forms_agree,
        "must-hold-linear-time": linear_time,
    },
)

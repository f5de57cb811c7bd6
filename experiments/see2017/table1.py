"""See, Liu & Manning 2017, Table 1: attention with pointing and coverage, applied to predicting names of functions.

    attention-research reproduce see2017/table1 --scale=cpu

The published ROUGE is for CNN / Daily Mail, which no registry package may distribute. The name of a function is not a
summary, so results cannot be compared with the published column. The same three systems read the bodies of functions of
the standard library and generate their names (`allamanis2016/naming`), scored by sub-tokens. The baseline "first words
of the body" replaces lead-3. The paper's statements about the systems can still be tested: whether pointing gives words
that are not in the vocabulary, and whether coverage reduces repetition (`repeated`: the share of names in which a
sub-token occurs twice, with the share in the true names for comparison).

Coverage is used from the first update on; the paper adds it for the last 3,000 of 230,000 updates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

CONFIG = "configs/naming/pointer_generator.py"
NOTE = (
    "Data: functions of the standard library of the Python that ran, split by module. Scores are in percent, averaged "
    "over functions. OOV: sub-tokens outside the vocabulary. The loss of the last row includes the coverage loss."
)
PLAIN = {"task": {"kind": "translation", "label_smoothing": 0.0}, "model.coverage": False}


def named(*, workdir: Path, seed: int) -> dict[str, Any]:
    """Returns the scores of the run. `seed` has no effect."""
    from ..allamanis2016.naming_run import scores_of

    del seed
    return scores_of(workdir)


def pointing(results: Results) -> Verdict:
    """The pointer-generator is better than attention alone."""
    keys = {"OOV sub-tokens": "measure.oov_accuracy", "F1": "measure.f1"}
    return conclude({
        name: compare(results, "pointer_generator", "attention", key, higher=True) for name, key in keys.items()
    })  # fmt: skip


def coverage(results: Results) -> Verdict:
    """There is less repetition with coverage than without it."""
    return conclude({"repetition": compare(results, "coverage", "pointer_generator", "measure.repeated")})


STUDY = Study(
    rows=(
        Row("attention", "attention", {**PLAIN, "model.copies": False}),
        Row("pointer_generator", "pointer-generator", PLAIN),
        Row("coverage", "pointer-generator, coverage"),
        Row("lead_3", "lead-3", scales=()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, note=NOTE),
        "paper": Scale(f"{CONFIG}:see2017", seeds=1, note=NOTE),
    },
    stages=(train, evaluate, measure(named)),
    columns=(
        PARAMETERS,
        FLOPS,
        STEPS_PER_SECOND,
        LOSS,
        Column("measure.negative_log_likelihood", "test NLL", fixed(2), better="lower"),
        Column("measure.f1", "F1", fixed(1), better="higher"),
        Column("measure.f1_at_5", "F1 at 5", fixed(1), better="higher"),
        Column("measure.exact_match", "exact match, %", fixed(1), better="higher"),
        Column("measure.oov_accuracy", "OOV accuracy, %", fixed(1), better="higher"),
        Column("measure.repeated", "repetition, %", fixed(1), better="lower"),
        Column("measure.repeated_true", "repetition in true names, %", fixed(1), spread=False),
        Column("measure.first_words_f1", "F1 of first words", fixed(1), spread=False),
    ),
    published="table1.csv",
    claims="../claims.csv",
    competence=(Competence("pointer_generator", "evaluate.f1", "fixed", margin=5, higher=True),),
    verdicts={"must-hold-pointing-reaches-rare-words": pointing, "must-hold-coverage-cuts-repetition": coverage},
)

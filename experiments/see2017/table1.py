"""See, Liu & Manning 2017, Table 1: pointing and coverage over attention; here they name functions.

    attention-research reproduce see2017/table1 --scale=cpu

The printed ROUGE is on CNN / Daily Mail, which no registry package may give away, and a function's name is no summary:
nothing here is to be compared with the printed column. The same three systems read the bodies of standard-library
functions and write their names (`allamanis2016/naming`), scored by sub-tokens; lead-3 becomes the floor "first words of
the body". What the paper says of them can be looked at all the same: whether pointing brings words that the vocabulary
lacks, and whether coverage cuts repetition (`repeated`: names in which a sub-token stands twice; the true names' share
is printed beside it).

Coverage is there from the first update; the paper adds it for the last 3,000 of 230,000.
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
    "Functions of the standard library of the Python that ran, split by module; scores are means over functions, in "
    "percent. OOV: sub-tokens outside the vocabulary. The loss of the last row has the coverage loss in it."
)
PLAIN = {"task": {"kind": "translation", "label_smoothing": 0.0}, "model.coverage": False}


def named(*, workdir: Path, seed: int) -> dict[str, Any]:
    """The run's scores; `seed` changes nothing."""
    from ..allamanis2016.naming_run import scores_of

    del seed
    return scores_of(workdir)


def pointing(results: Results) -> Verdict:
    """Papers' must hold: the pointer-generator against attention alone."""
    keys = {"OOV sub-tokens": "measure.oov_accuracy", "F1": "measure.f1"}
    return conclude({
        name: compare(results, "pointer_generator", "attention", key, higher=True) for name, key in keys.items()
    })  # fmt: skip


def coverage(results: Results) -> Verdict:
    """Papers' must hold: repetition with coverage against without."""
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
        Column("measure.exact_match", "exact %", fixed(1), better="higher"),
        Column("measure.oov_accuracy", "OOV %", fixed(1), better="higher"),
        Column("measure.repeated", "repeated %", fixed(1), better="lower"),
        Column("measure.repeated_true", "repeated in true names %", fixed(1), spread=False),
        Column("measure.first_words_f1", "first words' F1", fixed(1), spread=False),
    ),
    published="table1.csv",
    claims="../claims.csv",
    competence=(Competence("pointer_generator", "evaluate.f1", "fixed", margin=5, higher=True),),
    verdicts={"must-hold-pointing-reaches-rare-words": pointing, "must-hold-coverage-cuts-repetition": coverage},
)

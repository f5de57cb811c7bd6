"""Gu & Dao 2023 (Mamba), Table 11: induction heads of Mamba and of attention, by the length of the row.

    attention-research reproduce mamba2023/induction --scale=paper

Models are trained on rows of 256 tokens (`data.induction`) and tested on rows of 64 to 4,096. Three rows are attention
with a position code: sinusoids that are added to the embeddings, rotary positions, and xPos. The fourth is Mamba, of
half the width and without positions. H3 and Hyena are not rows here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data.induction import rows
from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNMEASURED, Case, Verdict, compare, conclude, decide, every_seed
from attention_research.training.evaluation import Trained

CONFIG = "configs/language_modelling/induction.py"
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
_SEED = 2314


def row(id: str, name: str, kind: str, steps: int, **more: Any) -> Row:
    """A row with its last update; smoke tests and `quick` have the updates of their scale."""
    changes = {"model.self_attention": {"kind": kind, "use_bias": False}, **more}
    return Row(id, name, {**changes, "training.steps": steps}, at={"smoke": changes, "quick": changes})


ATTENTION = (
    row(
        "abs",
        "absolute (sinusoids)",
        "standard",
        204_800,
        **{"model.positions": {"kind": "sinusoidal", "max_length": 4096}},
    ),
    row("rotary", "rotary", "rotary", 409_600),
    row("xpos", "xPos", "xpos", 409_600),
)
NO_HEADS: dict[str, Any] = {"model.self_attention": {"kind": "mamba"}}
MAMBA = Row(
    "mamba",
    "Mamba",
    {**NO_HEADS, "model.width": 64, "training.steps": 204_800},
    at={"smoke": NO_HEADS, "quick": {**NO_HEADS, "model.width": 64}},
)
ROWS = (*ATTENTION, MAMBA)


def measure_lengths(
    *, workdir: Path, seed: int, lengths: Sequence[int], examples: int, tokens: int, **_: Any
) -> dict[str, Any]:
    """The accuracy in percent on `examples` rows of each length, the same for all models, and the number of updates.
    A batch has at most `tokens` tokens."""
    del seed
    trained = Trained(workdir)
    symbols, found = trained.config.resolved["data"]["symbols"], {"updates": trained.step}
    for length in lengths:
        made = rows(np.random.default_rng([_SEED, length]), examples, length, symbols)
        size = max(1, min(examples, tokens // length))
        parts = (
            {name: array[first : first + size] for name, array in made.items()} for first in range(0, examples, size)
        )
        batches = ((np.arange(len(part["target"])), part) for part in parts)
        right = sum(int(outputs["right"].sum()) for _, _, outputs in trained.outputs(trained.model(), batches))
        found[f"length_{length}"] = 100.0 * right / examples
    return found


def learned_at_the_length_of_training(results: Results) -> Verdict:
    """Every seed of every position code gives at least 99 % of the answers of rows of 256 tokens."""
    rule = lambda found: Case.ruled(min(found) >= 99, f"at least {min(found):.1f} %")
    return decide(every_seed(results, {row.id: row.name for row in ATTENTION}, "measure.length_256", rule))


def xpos_reaches_further(results: Results) -> Verdict:
    """At four times the length of training, xPos gives more answers than rotary and absolute positions."""
    key = "measure.length_1024"
    return conclude({f"against {row}": compare(results, "xpos", row, key, higher=True) for row in ("rotary", "abs")})


def attention_does_not_extrapolate(results: Results) -> Verdict:
    """At 16 times the length of training, every seed of every position code gives fewer than a third of the answers,
    although it gives at least 99 % of them at that length."""
    rule = lambda found: Case.ruled(max(found) < 100 / 3, f"at most {max(found):.1f} %")
    cases = every_seed(results, {row.id: row.name for row in ATTENTION}, "measure.length_4096", rule)
    for row in ATTENTION:
        known = results.values(row.id, "measure.length_256")
        if known and min(known) < 99:
            cases[row.name] = Case(UNMEASURED, f"at the length of training only {min(known):.1f} %")
    return decide(cases)


def mamba_extrapolates(results: Results) -> Verdict:
    """At 16 times the length of training, every seed of Mamba gives at least 99 % of the answers."""
    rule = lambda found: Case.ruled(min(found) >= 99, f"at least {min(found):.1f} %")
    return decide(every_seed(results, {"mamba": "Mamba"}, "measure.length_4096", rule))


def stages(lengths: tuple[int, ...], examples: int) -> tuple[Any, ...]:
    """Training, the accuracy of the validation rows, and that by length."""
    return train, evaluate, measure(measure_lengths, lengths=lengths, examples=examples, tokens=16_384)


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", {"training.steps": 4}, seeds=1, jobs=2, stages=stages((8, 16, 32), 8)),
        "quick": Scale(f"{CONFIG}:rotary", {"training.steps": 5000}, seeds=1, note="5,000 updates for every row."),
        "paper": Scale(
            f"{CONFIG}:rotary",
            seeds=3,
            note="A run ends once all 512 validation rows were right at five checks in a row, 1,000 updates apart; the "
            "paper has 204,800 updates (absolute, Mamba) and 409,600 (rotary, xPos).",
        ),
    },
    stages=stages(LENGTHS, 512),
    columns=(
        PARAMETERS,
        Column("measure.updates", "updates", fixed(0)),
        *(Column(f"measure.length_{n}", f"accuracy at {n}, %", fixed(1), better="higher") for n in LENGTHS),
    ),
    published="induction.csv",
    compared={f"measure.length_{n}": f"accuracy at {n}, %" for n in LENGTHS},
    claims="../claims.csv",
    competence=(
        Competence(
            "rotary",
            "measure.length_256",
            line=99.0,
            higher=True,
            claims=(
                "induction-is-learned",
                "induction-xpos-reaches-further",
                "induction-attention-does-not-extrapolate",
            ),
            rows=("abs", "rotary", "xpos"),
        ),
        Competence(
            "mamba",
            "measure.length_256",
            line=99.0,
            higher=True,
            claims=("induction-mamba-extrapolates",),
            rows=("mamba",),
        ),
    ),
    verdicts={
        "induction-is-learned": learned_at_the_length_of_training,
        "induction-xpos-reaches-further": xpos_reaches_further,
        "induction-attention-does-not-extrapolate": attention_does_not_extrapolate,
        "induction-mamba-extrapolates": mamba_extrapolates,
    },
)

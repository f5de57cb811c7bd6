"""The rows, scales, columns and verdicts that both studies of Ontanon et al. 2021 share."""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

CONFIG = "configs/compositional/transformer.py"
#: The paper's name of the relative positions -> the kind of self-attention.
KINDS = {"e": "relative_keys", "b": "relative_bias", "eb": "relative_keys_bias"}
PRINTED = {"e": "vectors", "b": "biases", "eb": "vectors and biases"}
CLIP = 16
WRONG, WITHIN = "evaluate.word_error_rate", "evaluate.within.word_error_rate"
COLUMNS = (
    PARAMETERS,
    Column(WITHIN, "wrong, as long as in training, %", fixed(1), better="lower"),
    Column(WRONG, "wrong, longer, %", fixed(1), better="lower"),
    Column("evaluate.error_rate", "wrong digits, longer, %", fixed(1), better="lower"),
)


def relative(name: str, *, between: bool) -> dict[str, Any]:
    """Relative positions in self-attention, and with `between` from the decoder to the encoder too. No sinusoids."""
    changes: dict[str, Any] = {
        "model.positions": {"kind": "none"},
        "model.self_attention": {"kind": KINDS[name], "max_distance": CLIP},
    }
    if between:
        changes["model.decoder.cross_attention"] = {"kind": f"cross_{KINDS[name]}", "max_distance": CLIP}
    return changes


ROWS = (
    Row("abs", "absolute"),
    *(Row(f"rel_{name}", f"relative, {PRINTED[name]}", relative(name, between=False)) for name in KINDS),
    *(
        Row(f"rel2_{name}", f"relative, {PRINTED[name]}, also to the source", relative(name, between=True))
        for name in KINDS
    ),
)
#: The rows that a smoke test runs.
SMALL = ("abs", "rel2_eb")


def to_the_source(results: Results) -> Verdict:
    """Vectors by distance, also to the source, get more longer examples right than absolute positions and than the same
    vectors in self-attention alone."""
    return conclude(
        {f"against {name}": compare(results, "rel2_e", row, WRONG)
         for row, name in (("abs", "absolute positions"), ("rel_e", "self-attention alone"))}
    )  # fmt: skip


def study(task: str, claim: str) -> Study:
    """The study of a task, a variant of the configuration."""
    paper = "As the paper's: 200,000 examples, two epochs in batches of 64. The paper gives means of five runs."
    return Study(
        rows=tuple(
            Row(row.id, row.name, row.overrides, scales=None if row.id in SMALL else ("quick", "paper")) for row in ROWS
        ),
        scales={
            "smoke": Scale(f"{CONFIG}:smoke", {"data.task": task}, seeds=1, jobs=2),
            "quick": Scale(
                f"{CONFIG}:{task}",
                {"training.steps": 625, "training.schedule.warmup_steps": 400},
                seeds=1,
                note="A tenth of the updates and of the warm-up.",
            ),
            "paper": Scale(f"{CONFIG}:{task}", seeds=3, replicas=True, reference="abs", note=paper),
        },
        columns=COLUMNS,
        claims="../claims.csv",
        competence=(Competence("rel2_e", WITHIN, line=5.0),),
        verdicts={claim: to_the_source},
        notes=(
            "Wrong: the share of examples whose whole output is not the target. Examples as long as in training come "
            "from the validation split, longer ones from the test split.",
        ),
    )

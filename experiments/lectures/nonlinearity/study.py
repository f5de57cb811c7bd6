"""The effect of feed-forward networks between attention layers: similarity of tokens by depth, and loss at equal
parameters.

    attention-research reproduce lectures/nonlinearity --scale=cpu

With random weights (`rank_collapse`, after Dong et al. 2021), the study measures the distance of the outputs from their
mean vector by depth, for stacks of self-attention on random vectors: attention alone, with a residual connection, with
a feed-forward network, and with both, without normalization. Trained are causal language models of the characters of
film reviews with one, two and four layers, with the feed-forward network or with three times the heads instead, which
makes the parameters agree within 0.2 %. Measured are the loss, the next-token accuracy, and the same distance by layer.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...haviv2022.schemes import CHARACTERS, CONFIG, UNROLLED
from .figures import draw_distances, draw_quality
from .rank_collapse import measure_stack, measure_states
from .verdicts import DEPTHS, VERDICTS

LARGE = ("cpu", "gpu")
#: Row -> its name, the width of the feed-forward network (None: none), whether there is a residual connection.
STACKS = {
    "attention": ("attention alone", None, False),
    "attention_residual": ("attention, residual", None, True),
    "attention_feed_forward": ("attention, feed-forward", 256, False),
    "both": ("attention, feed-forward, residual", 256, True),
}
ATTENTION = ("norm", "self_attention", "dropout", "residual")
TRAINED = (train, evaluate, measure(measure_states))


def without(heads: int, head_width: int) -> dict[str, Any]:
    """The overrides without a feed-forward network. Its `8 D^2` parameters go to `2 heads` more heads of `4 D H`
    each."""
    return {"model.decoder.steps": (ATTENTION,), "model.num_heads": 3 * heads, "model.head_width": head_width}


def model(depth: int, *, feed_forward: bool) -> Row:
    """The row of a language model with `depth` layers."""
    name = f"{depth} layer{'s' * (depth > 1)}, " + ("feed-forward" if feed_forward else "three times the heads")
    changed = {"model.num_layers": depth, **({} if feed_forward else without(4, 16))}
    small = {} if feed_forward else without(2, 8)
    at = {"smoke": small, "cpu": {**CHARACTERS, **UNROLLED, **changed}}
    return Row(f"{'with' if feed_forward else 'without'}_{depth}", name, changed, at=at, stages=TRAINED,
               scales=None if depth == 2 and not feed_forward else LARGE)  # fmt: skip


SIZES = {"depth": 12, "width": 64, "num_heads": 4, "tokens": 32, "sequences": 16}
SHORT = {
    "max_length": 64,
    "training.steps": 600,
    "training.checkpoint_every": 600,
    "training.eval_every": 600,
    "training.log_every": 25,
    "training.schedule.warmup_steps": 50,
}
STUDY = Study(
    rows=(
        *(Row(id, name, settings={"hidden_width": hidden, "residual": residual}, stages=(measure(measure_stack),))
          for id, (name, hidden, residual) in STACKS.items()),
        *(model(depth, feed_forward=with_it) for depth in DEPTHS for with_it in (True, False)),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2,
                       settings={**SIZES, "depth": 4, "width": 16, "tokens": 8, "sequences": 4, "examples": 16}),
        "cpu": Scale(f"{CONFIG}:cpu", SHORT, seeds=3, jobs=2, replicas=True, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 10_000}, seeds=3, settings=SIZES),
    },
    columns=(
        PARAMETERS,
        Column("measure.alike", "alike at depth", fixed(0)),
        Column("measure.distance", "distance, last layer", significant(2)),
        LOSS,
        PERPLEXITY,
        Column("measure.accuracy", "next-token accuracy, %", fixed(1, 100), better="higher"),
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "with_4", "evaluate.perplexity", "trigram", claims=("feed-forward-repairs",), rows=("with_*", "without_*")
        ),
    ),
    untrained=("stacked-attention-only-averages",),
    verdicts=VERDICTS,
    figures=(draw_distances, draw_quality),
    notes=(
        "Distance: that of a sequence's vectors from their mean, divided by their norm. Alike: the distance is below "
        "1 %. Rows with random weights: 32 random vectors of width 64 through 12 layers. Trained rows: the states "
        "after the last layer for 64 tokens of test text.",
        "The seeds of a trained row were trained together on the same batches.",
    ),
)  # fmt: skip

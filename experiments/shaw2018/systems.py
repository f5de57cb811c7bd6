"""The models of Shaw et al. 2018 at every scale, as overrides of configs/translation/transformer.py.

The paper's base model has narrower feed-forward layers (1,024) than that of Vaswani et al. 2017. It uses 32,768 word
pieces and does not average checkpoints. In the paper's base model every head has its own tables. Here the heads of a
layer share them, as in the paper's big model.

At `cpu` the text is strings of user interfaces, French to English, and the recipe is that of the configuration for
small budgets: pre-norm blocks, AdamW, and a linear decay.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale
from attention_research.studies.columns import BLEU, FAR_BLEU, FLOPS, LOSS, PARAMETERS, PERPLEXITY

CONFIG = "configs/translation/transformer.py"
COLUMNS = (
    PARAMETERS,
    FLOPS,
    LOSS,
    PERPLEXITY,
    BLEU,
    FAR_BLEU,
)
HIDDEN = "model.feed_forward.hidden_width"
NO_POSITIONS: dict[str, Any] = {"model.positions.kind": "none"}

#: Scale -> the base model. The updates of `cpu` are the first of 1,000, 2,000 and 4,000 with which the translations of
#: `base_relative` alone, of strings unlike all training strings, are 3 BLEU better than those of a translation memory.
#: After 2,000 updates they were 0.3 better (mean of three seeds).
BASE: dict[str, dict[str, Any]] = {
    "smoke": {"training.steps": 2},
    "cpu": {
        HIDDEN: 256,
        "vocabulary_size": 2000,
        "training.steps": 4000,
        "training.schedule.warmup_steps": 400,
        "training.checkpoint_every": 4000,
        "training.eval_every": 1000,
    },
    "gpu": {
        HIDDEN: 512,
        "model.num_layers": 6,
        "model.width": 256,
        "model.num_heads": 8,
        "vocabulary_size": 8000,
        "training.batch_size": 128,
        "training.steps": 20_000,
        "training.learning_rate": 1.0,
        "training.schedule.warmup_steps": 4000,
        "training.checkpoint_every": 2000,
        "training.eval_every": 2000,
    },
    "paper": {HIDDEN: 1024, "vocabulary_size": 32_768, "evaluation.average": 1},
}
#: Scale -> the overrides of the larger model of Table 1.
BIG: dict[str, dict[str, Any]] = {
    "smoke": {"model.width": 48},
    "cpu": {"model.width": 192, "model.num_heads": 6, HIDDEN: 384},
    "gpu": {"model.width": 512, "model.num_heads": 16, HIDDEN: 2048, "model.dropout_rate": 0.3},
    "paper": {"model.width": 1024, "model.num_heads": 16, HIDDEN: 4096, "model.dropout_rate": 0.3,
              "training.steps": 300_000, "training.keep": 20, "evaluation.average": 20},
}  # fmt: skip
NOTES = (
    "The published BLEU is for newstest, ours at `cpu` for strings of user interfaces and at `gpu` for Bible verses: "
    "compare rows, not columns.",
    "Far: of the strings whose most similar training string has a letter 3-gram Dice coefficient below 0.6.",
)


def attention(kind: str, max_distance: int = 16) -> dict[str, Any]:
    """The overrides of self-attention with relative position tables and without other positions."""
    return {"model.self_attention": {"kind": kind, "max_distance": max_distance}, **NO_POSITIONS}


def row(
    id: str, name: str, overrides: dict[str, Any], *, big: bool = False, smoke: bool = False, cpu: bool = True
) -> Row:
    """A row of the base model or of the larger model. It is run at `smoke` only if `smoke` is true, and at `cpu` only
    if `cpu` is true."""
    at = {scale: {**BIG[scale], **overrides} for scale in BIG} if big else {}
    run = {"smoke": smoke, "cpu": cpu, "gpu": True, "paper": True}
    return Row(id, name, at.get("paper", overrides), at=at, scales=tuple(scale for scale in BASE if run[scale]))


def scales(overrides: dict[str, Any]) -> dict[str, Scale]:
    """All scales. `overrides` apply to every row at every scale but `cpu`, where all tables score the test split, so
    that their common rows are the same trials."""
    cpu = "Width 128, 2 + 2 layers (big: width 192), 4,000 updates of 64 strings, 9.2 epochs."
    return {
        "smoke": Scale(f"{CONFIG}:smoke", BASE["smoke"] | overrides, seeds=1, jobs=2),
        "cpu": Scale(f"{CONFIG}:cpu", BASE["cpu"], seeds=3, note=cpu),
        "gpu": Scale(f"{CONFIG}:vaswani_cpu", BASE["gpu"] | overrides, seeds=3, replicas=True),
        "paper": Scale(f"{CONFIG}:vaswani_base", BASE["paper"] | overrides, seeds=1, note="Only counted, not trained."),
    }

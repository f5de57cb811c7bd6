"""Haviv et al. 2022: a causal language model without any positions comes close to one that has them.

    attention-research reproduce haviv2022/nopos --scale=cpu

The data are film reviews in rows of running text, read by character at `cpu`. The rows have no positions, learned
positions, sinusoids or ALiBi; then the same with half the width and depth, with rows a quarter as long (and the same
number of tokens per batch), and as masked language models, whose mask gives no information about order; these also with
relative positions, with which they learn sooner. The published perplexities (Tables 1 to 4) are for WikiText-103 and
the Pile, with 247 million and 1.3 billion parameters: compare rows, not columns.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Budget, Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND
from attention_research.studies.competence import Competence

from .nopos_verdict import close, draw
from .schemes import CHARACTERS, CONFIG, LONGER, RELATIVE, SCHEMES

#: The other axes of Haviv et al.: suffix of the row id -> suffix of the name, overrides.
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("", {}),
    "_small": (
        ", half as wide and deep",
        {"model.width": 32, "model.num_layers": 2, "model.num_heads": 2, "model.feed_forward.hidden_width": 128},
    ),
    "_short": (", 32 tokens", {"max_length": 32, "training.batch_size": 64}),
}


def masked(overrides: dict[str, Any]) -> dict[str, Any]:
    """The overrides of the same model as an encoder that predicts masked tokens."""
    model = {
        "kind": "transformer_encoder", "num_layers": 4, "width": 64, "num_heads": 4, "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": 256, "activation": "gelu"},
        "encoder": {"steps": (("norm", "self_attention", "dropout", "residual"),
                              ("norm", "feed_forward", "dropout", "residual")), "final_norm": True},
    }  # fmt: skip
    return {"model": model, **overrides, "data.objective": {"kind": "masked_tokens"}}


LARGE = ("cpu", "gpu")
#: The updates of a schedule at `cpu` by size. After 2,000, no small model was better than a trigram model.
UPDATES = {"_small": {"training.steps": 10_000, "training.schedule.warmup_steps": 1000}}
#: The overrides of an even smaller model, causal or masked.
SMOKE = {"model.width": 16, "model.num_layers": 2, "model.num_heads": 2, "model.feed_forward.hidden_width": 32}


def rows() -> tuple[Row, ...]:
    """The rows: every scheme at every size, then masked; at smoke only three of them.

    The masked rows at `cpu` are those of the verdict and learned positions, with which the paper compares.
    """
    found = []
    for scheme, (name, overrides) in SCHEMES.items():
        for suffix, (said, size) in SIZES.items():
            scales = None if suffix == "" and scheme in ("none", "alibi") else LARGE
            changed = {**size, **overrides}
            at = {"cpu": {**changed, **UPDATES.get(suffix, {})}}
            found.append(Row(f"{scheme}{suffix}", f"{name}{said}", changed, at=at, scales=scales))
    for scheme, (name, overrides) in {**SCHEMES, "relative": ("relative bias", RELATIVE)}.items():
        scales = {"none": None, "sinusoidal": ("gpu",), "alibi": ("gpu",)}.get(scheme, LARGE)
        at = {"smoke": {**masked(overrides), **SMOKE}, "cpu": masked({**LONGER, **overrides})}
        found.append(Row(f"{scheme}_masked", f"{name}, masked", masked(overrides), at=at, scales=scales))
    return tuple(found)


GPU = {"max_length": 512, "vocabulary_size": 8192, "model.num_layers": 12, "model.width": 768, "model.num_heads": 12,
       "model.feed_forward.hidden_width": 3072, "training.steps": 20_000, "training.batch_size": 64,
       "training.learning_rate": 0.0003, "training.schedule": {"kind": "linear", "warmup_steps": 1000}}  # fmt: skip
STUDY = Study(
    rows=rows(),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "cpu": Scale(f"{CONFIG}:cpu", CHARACTERS, seeds=3, jobs=2, replicas=True),
        "gpu": Scale(f"{CONFIG}:cpu", GPU, seeds=3),
    },
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS, PERPLEXITY),
    budgets=(
        Budget(
            "sinusoidal",
            {"none": ("none_short",), "sinusoidal_small": ("learned_small", "alibi_small"), "none_small": ()},
        ),
        Budget("relative_masked", {"relative_masked": ("learned_masked",), "none_masked": ()}),
    ),
    published="nopos.csv",
    compared={"evaluate.perplexity": "WikiText-103"},
    claims="../claims.csv",
    competence=(
        Competence(
            "learned",
            "evaluate.perplexity",
            "trigram",
            rows=tuple(f"{scheme}{suffix}" for scheme in SCHEMES for suffix in SIZES),
        ),
        Competence("relative_masked", "evaluate.perplexity", "trigram", rows=("*_masked",)),
    ),
    verdicts={"no-positions-still-works": close},
    figures=(draw,),
    notes=(
        "Perplexity per token of test reviews that are cut into rows. For a masked model it is that of the masked "
        "tokens only.",
        "The seeds of a row were trained together on the same batches.",
    ),
)

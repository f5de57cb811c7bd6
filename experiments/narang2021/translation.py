"""Narang et al. 2021, Table 1, last column: the 52 Transformers trained from scratch to translate to German.

    attention-research reproduce narang2021/translation --scale=gpu

The paper trains 150,000 steps on WMT14 with a separate vocabulary. Here the data are strings of user interfaces, and
the vocabulary has the same size as in `narang2021/table1` at the same scale, so that every row is the same model. There
is no scale `cpu`: 52 rows that learn to translate take more than ten hours of a core.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import BLEU, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND
from attention_research.studies.competence import Competence

from .rows import one_optimizer, table
from .sizes import GPU, SMOKE
from .table1 import CONFIG, slug

SIZED = {"gpu": one_optimizer(GPU), "smoke": table(SMOKE)}


def translating(longest: int, examples: int | None, **training: Any) -> dict[str, Any]:
    """The overrides of a scale: the longest string in tokens, and the number of scored examples."""
    task = {
        "name": "ui_translate/de-en",
        "prefix": "translate English to German: ",
        "source": ("en",),
        "target": "de",
    }
    lengths = {"max_length": longest, "batching": {"boundaries": (longest,)}}
    return {
        "data": {"kind": "text_to_text", **task, **lengths},
        "evaluation": {
            "kind": "text_to_text", "metrics": ("bleu",), "split": "test", "examples": examples, "batch_size": 64
        },
        **{f"training.{name}": value for name, value in training.items()},
    }  # fmt: skip


STUDY = Study(
    rows=tuple(Row(slug(name), name, at={scale: rows[name] for scale, rows in SIZED.items()}) for name in table(GPU)),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", translating(32, 16), seeds=1),
        "gpu": Scale(f"{CONFIG}:gpu", translating(64, None), seeds=3, replicas=True),
    },
    competence=(Competence("vanilla_transformer", "evaluate.perplexity", "trigram"),),
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS, PERPLEXITY, BLEU),
    published="translation.csv",
    compared={"evaluate.bleu": "WMT En-De"},
)

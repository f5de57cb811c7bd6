"""Luong et al. 2015, Table 3: German to English, from the reversed base to global attention with input feeding.

    attention-research reproduce luong2015/table3 --scale=cpu

Below `paper` the same systems write the sounds of English words from their letters, with Adam and one layer.
"""

from __future__ import annotations

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.studies import Budget, Row, Study, evaluate, train
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from ..raffel2017.systems import pronounces
from .systems import (
    COLUMNS,
    FEED,
    LOCATION,
    NO_ATTENTION,
    NO_FEED,
    OURS,
    WITHOUT_DROPOUT,
    attention,
    printed,
    scales,
)

DOT = attention("global", {"kind": "dot"})


def row(id: str, name: str, changes: dict, *, dropout: bool = False) -> Row:
    """A row of the paper, without dropout by default."""
    ours = changes if dropout else changes | {"model.dropout_rate": 0.0}
    theirs = changes if dropout else changes | WITHOUT_DROPOUT
    return Row(id, name, at={**dict.fromkeys(OURS, ours), "paper": theirs})


ROWS = (
    printed("smt", "phrase-based (Edinburgh)"),
    printed("mila", "neural + 5-gram reranking (MILA)"),
    row("base", "base (reverse)", NO_ATTENTION),
    row("location", "+ global (location)", {**NO_FEED, **LOCATION}),
    row("location_feed", "+ global (location) + feeding", {**FEED, **LOCATION}),
    row("dot_dropout_feed", "+ global (dot) + dropout + feeding", {**FEED, **DOT}, dropout=True),
    printed("unk", "+ unknown words replaced"),
)


def each_step_helps(results: Results) -> Verdict:
    """Each step of the paper lowers the perplexity."""
    steps = (("location", "base"), ("location_feed", "location"), ("dot_dropout_feed", "location_feed"))
    return conclude({
        f"perplexity, {better} after {worse}": compare(results, better, worse, "evaluate.perplexity")
        for better, worse in steps
    })  # fmt: skip


STUDY = Study(
    rows=ROWS,
    scales=scales(("de", "en")),
    stages=(train, evaluate),
    columns=COLUMNS,
    budgets=(Budget("dot_dropout_feed", {"base": ()}),),
    published="table3.csv",
    compared={"evaluate.perplexity": "perplexity"},
    claims="../claims.csv",
    counts=weights_without_biases,
    competence=(pronounces("dot_dropout_feed"),),
    verdicts={"must-hold-each-step-helps": each_step_helps},
)

"""Luong et al. 2015, Table 3: German to English, from the reversed base to global attention with input feeding.

    attention-research reproduce luong2015/table3 --scale=cpu

Below `paper` the same systems translate Bible verses, German to English, with Adam and one layer.
"""

from __future__ import annotations

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.weights import weights_without_biases
from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

CONFIG = "configs/translation/recurrent.py"
GERMAN_ENGLISH = {"data.source_language": "de", "data.target_language": "en"}
WITHOUT_DROPOUT = {
    "model.dropout_rate": 0.0,
    "training.steps": 351_562,
    "training.schedule.boundaries": (175_781, 210_937, 246_093, 281_250, 316_406),
}
LOCATION = {"model.alignment": {"kind": "location"}}
DOT = {"model.alignment": {"kind": "global", "score": {"kind": "dot"}}}
FEED, NO_FEED = ({"model.decoder": {"kind": "luong", "input_feeding": fed}} for fed in (True, False))


def row(id: str, name: str, changes: dict, *, dropout: bool = False) -> Row:
    """A row of the paper, without dropout unless it says so."""
    ours = changes if dropout else changes | {"model.dropout_rate": 0.0}
    theirs = changes if dropout else changes | WITHOUT_DROPOUT
    return Row(id, name, at={"smoke": ours, "cpu": ours, "paper": theirs})


ROWS = (
    Row("smt", "phrase-based (Edinburgh)", scales=()),
    Row("mila", "neural + 5-gram reranking (MILA)", scales=()),
    row("base", "base (reverse)", {"model.decoder": {"kind": "fixed_vector"}, "model.alignment": {"kind": "none"}}),
    row("location", "+ global (location)", {**NO_FEED, **LOCATION}),
    row("location_feed", "+ global (location) + feeding", {**FEED, **LOCATION}),
    row("dot_dropout_feed", "+ global (dot) + dropout + feeding", {**FEED, **DOT}, dropout=True),
    Row("unk", "+ unknown words replaced", scales=()),
)


def base(width: int, vocabulary: int) -> dict:
    """The paper's system in place of the configuration's RNNsearch."""
    return {
        **GERMAN_ENGLISH,
        "data.name": "bible_translate/de-en",
        "vocabulary_size": vocabulary,
        "model.width": width,
        "model.embedding_width": width,
        "model.cell": {"kind": "lstm"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "luong", "input_feeding": True},
        "model.initialization": {"kind": "uniform", "scale": 0.1},
        "model.reverse_source": True,
        "model.dropout_rate": 0.2,
    }


def each_step_helps(results: Results) -> Verdict:
    """Papers' must hold: the printed order, step by step."""
    steps = (("location", "base"), ("location_feed", "location"), ("dot_dropout_feed", "location_feed"))
    return conclude({
        f"perplexity, {better} after {worse}": compare(results, better, worse, "evaluate.perplexity")
        for better, worse in steps
    })  # fmt: skip


NOTE = (
    "Bible verses, German to English, learnt up to 32 pieces; BLEU is of the test verses that fit into them, greedy; "
    "bleu.png is of all of them, cut to that length."
)
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", base(16, 1000), seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", base(128, 4000), seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "paper": Scale(f"{CONFIG}:luong", GERMAN_ENGLISH, seeds=1, note="Counted; WMT14 must be brought."),
    },
    stages=(train, evaluate, measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96)),
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU", fixed(1), better="higher"),
        Column("measure.bleu_every_length", "BLEU, whole test", fixed(1), better="higher"),
    ),
    published="table3.csv",
    claims="claims.csv",
    counts=weights_without_biases,
    verdicts={"must-hold-each-step-helps": each_step_helps},
)  # fmt: skip

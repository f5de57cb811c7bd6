"""Shared by the tables of Luong et al. 2015: the system, its parts by name, rows of generated sentences, and scales.

This module defines no study. Below `paper` the systems have Adam and one layer, and translate strings of user
interfaces (the task and the recipe of `configs/translation/recurrent.py:strings`) or generated sentences with gold
alignments.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale
from attention_research.studies.columns import (
    BLEU,
    FAR_BLEU,
    FLOPS,
    LOSS,
    PARAMETERS,
    PERPLEXITY,
    STEPS_PER_SECOND,
    Column,
    fixed,
)
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, compare

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu")
#: Half of the window: the paper's 10 for up to 50 words, and 4 for strings and generated sentences, which are shorter.
HALF_WIDTH, OUR_HALF_WIDTH = 10, 4
#: An epoch of the paper has 35,156 updates. Without dropout there are 10 epochs, and the learning rate is halved in
#: each epoch after the 5th; with dropout there are 12, and it is halved after the 8th.
WITHOUT_DROPOUT = {
    "model.dropout_rate": 0.0,
    "training.steps": 351_562,
    "training.schedule.boundaries": (175_781, 210_937, 246_093, 281_250, 316_406),
}
NO_ATTENTION = {"model.decoder": {"kind": "fixed_vector"}, "model.alignment": {"kind": "none"}}
FEED, NO_FEED = ({"model.decoder": {"kind": "luong", "input_feeding": fed}} for fed in (True, False))
LOCATION = {"model.alignment": {"kind": "location"}}
COLUMNS = (PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY, BLEU, FAR_BLEU)
CENTRE_DISTANCE = Column("measure.centre_distance", "distance from gold, words", fixed(2), better="lower")


def attention(place: str, score: dict[str, Any], half_width: int | None = None) -> dict[str, Any]:
    """The section of a global alignment, or of a local one with half of its window."""
    window = {} if half_width is None else {"half_width": half_width}
    return {"model.alignment": {"kind": place, "score": score, **window}}


def generated(
    id: str, name: str, changes: dict[str, Any], stages: tuple, *, vocabulary: int, data: str = "local"
) -> Row:
    """A row on generated sentences with reordered words, read forward. Only the most frequent words are in the
    vocabulary."""
    section = {
        "name": f"generated_translation/{data}",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (12, 16, 24, 32)},
    }
    shared = {
        "max_length": 32,
        "vocabulary_size": vocabulary,
        "data": section,
        "evaluation.near": None,
        "model.reverse_source": False,
    }
    return Row(id, f"generated: {name}", {**shared, **changes}, scales=OURS, stages=stages)


def printed(id: str, name: str) -> Row:
    """A row with published cells only."""
    return Row(id, name, scales=())


def scales(data: str, paper: tuple[str, str], note: str) -> dict[str, Scale]:
    """The scales, with the paper's system instead of the configuration's RNNsearch. `data` are the interface strings to
    be translated into English, and `paper` are the source and the target language of the table."""
    source, target = paper
    strings = {
        "data.name": f"ui_translate/{data}",
        "data.source_language": data.partition("-")[0],
        "data.target_language": "en",
        "model.cell": {"kind": "lstm_forget_bias"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "luong", "input_feeding": True},
        "model.reverse_source": True,
    }
    return {
        "smoke": Scale(f"{CONFIG}:smoke", strings, seeds=1, jobs=2, settings={"examples": 8}, note=note),
        "cpu": Scale(f"{CONFIG}:strings", strings, seeds=3, jobs=2, settings={"examples": 600}, note=note),
        "paper": Scale(
            f"{CONFIG}:luong",
            {"data.source_language": source, "data.target_language": target},
            seeds=1,
            note="Only counted; training needs your own copy of WMT14.",
        ),
    }


def quality(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Compares perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "evaluate.bleu", higher=True),
    }

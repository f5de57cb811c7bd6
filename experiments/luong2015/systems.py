"""Shared by the tables of Luong et al. 2015: the system, its parts by name, rows of generated sentences, and scales.

This module defines no study. Below `paper` the systems have Adam and one layer. They write the sounds of English words
from their letters (the task and the recipe of `configs/pronunciation/recurrent.py`), or translate generated sentences
with gold alignments.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, compare

from ..raffel2017.systems import CONFIG as SOUNDS
from ..raffel2017.systems import ERROR_RATE, SEQUENCES_WRONG

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu")
#: Half of the window: the paper's 10 for up to 50 words, 2 for words of 7 letters on average, and 4 for generated
#: sentences of 4 to 20 words.
HALF_WIDTH, LETTERS_HALF_WIDTH, GENERATED_HALF_WIDTH = 10, 2, 4
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
COLUMNS = (PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY, ERROR_RATE, SEQUENCES_WRONG)
CENTRE_DISTANCE = Column("measure.centre_distance", "distance from gold, words", fixed(2), better="lower")
SOUNDS_NOTE = (
    "Letters of English words to their sounds, with Adam instead of the paper's SGD, greedy. Wrong sounds: edits over "
    "all sounds, to the nearest pronunciation of the word; in generated rows, edits over all words."
)
NOTE = f"{SOUNDS_NOTE} Windows reach 2 letters or 4 words to each side (paper: 10 words, for sentences of up to 50)."


def attention(place: str, score: dict[str, Any], half_width: int | None = None) -> dict[str, Any]:
    """The section of a global alignment, or of a local one with half of its window."""
    window = {} if half_width is None else {"half_width": half_width}
    return {"model.alignment": {"kind": place, "score": score, **window}}


def translate_generated(data: str, vocabulary: int) -> dict[str, Any]:
    """The task of translating generated sentences of 4 to 20 whole words, of which the most frequent have a token."""
    section = {
        "name": f"generated_translation/{data}",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (12, 16, 24, 32)},
    }
    return {"max_length": 32, "vocabulary_size": vocabulary, "data": section, "decoding.extra_length": 16}


def generated(
    id: str, name: str, changes: dict[str, Any], stages: tuple, *, vocabulary: int, data: str = "local"
) -> Row:
    """A row on generated sentences with reordered words, read forward."""
    shared = {**translate_generated(data, vocabulary), "model.reverse_source": False, **changes}
    trained = {"training.steps": 4000, "training.batch_size": 32, "training.checkpoint_every": 4000}
    return Row(id, f"generated: {name}", at={"smoke": shared, "cpu": shared | trained}, scales=OURS, stages=stages)


def printed(id: str, name: str) -> Row:
    """A row with published cells only."""
    return Row(id, name, scales=())


def scales(paper: tuple[str, str]) -> dict[str, Scale]:
    """The scales, with the paper's system instead of the configuration's RNNsearch. `paper` are the source and the
    target language of the table."""
    source, target = paper
    system = {
        "model.cell": {"kind": "lstm_forget_bias"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "luong", "input_feeding": True},
        "model.reverse_source": True,
    }
    return {
        "smoke": Scale(f"{SOUNDS}:smoke", system, seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{SOUNDS}:cpu", system, seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "paper": Scale(
            f"{CONFIG}:luong",
            {"data.source_language": source, "data.target_language": target},
            seeds=1,
            note="Only counted; training needs your own copy of WMT14.",
        ),
    }


def quality(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Compares perplexity and wrong sounds of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"wrong sounds, {name}": compare(results, better, worse, "evaluate.error_rate"),
    }

"""Shared by the tables of Luong et al. 2015: the system, its parts by name, rows of generated sentences, and scales.

This module defines no study. Below `paper` the systems have Adam and one layer, and translate Bible verses of up to 32
word pieces or generated sentences with gold alignments.
"""

from __future__ import annotations

from typing import Any

from attention_research.analysis.by_length import measure as by_length
from attention_research.studies import Row, Scale, measure
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, compare

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu")
VERSES = measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96)
#: Half of the window: the paper's 10 for 50 words, scaled to 32 word pieces and to 20 generated words.
WIDTHS = HALF_WIDTH, VERSES_HALF_WIDTH, GENERATED_HALF_WIDTH = 10, 5, 4
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
COLUMNS = (PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY)
BLEU = Column("measure.bleu_fitting", "BLEU", fixed(1), better="higher")
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
        "batching": {"kind": "buckets", "boundaries": (32,)},
    }
    shared = {"vocabulary_size": vocabulary, "data": section, "model.reverse_source": False}
    return Row(id, f"generated: {name}", {**shared, **changes}, scales=OURS, stages=stages)


def printed(id: str, name: str) -> Row:
    """A row with published cells only."""
    return Row(id, name, scales=())


def scales(source: str, target: str, note: str) -> dict[str, Scale]:
    """The scales, with the paper's system instead of the configuration's RNNsearch, for one direction of translation
    between English and German."""
    languages = {"data.source_language": source, "data.target_language": target}

    def ours(variant: str, width: int, vocabulary: int, **more: Any) -> Scale:
        system = {
            **languages,
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
        return Scale(f"{CONFIG}:{variant}", system, jobs=2, note=note, **more)

    return {
        "smoke": ours("smoke", 16, 1000, seeds=1, settings={"examples": 8}),
        "cpu": ours("cpu", 128, 4000, seeds=3, settings={"examples": 600}),
        "paper": Scale(
            f"{CONFIG}:luong", languages, seeds=1, note="Only counted; training needs your own copy of WMT14."
        ),
    }


def quality(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Compares perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "measure.bleu_fitting", higher=True),
    }

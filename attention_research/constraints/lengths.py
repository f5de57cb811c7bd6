"""Constraints between the lengths of rows and the tables of positions that read them.

A layer with a table of `max_length` positions cannot read a longer row. Rows are as long as the data say. Constraints
are checked only where a part of the model certainly reads whole rows: pooled positions, latents, pictures, prompts and
packed positions have other lengths.
"""

from __future__ import annotations

from attention_research.constraints.packing import COUNT_IN_A_ROW
from attention_research.constraints.section import Broken, Section, kind_of

#: Kinds of attention with a table, a projection or a filter for `max_length` positions.
WITH_A_TABLE = (*COUNT_IN_A_ROW, "linformer", "dot_synthesizer", "hyena", "log_linear")
#: Those with a table for the blocks of `max_length` positions, as many as `block_size` gives.
WITH_BLOCKS = ("sinkhorn", "bigbird")
#: Models whose encoder reads whole sources.
READ_SOURCES = ("transformer", "shared_transformer", "transformer_encoder", "encoder_classifier")
#: Encoders whose layers read positions of other numbers than the words of a source.
OTHER_POSITIONS = ("funnel", "perceiver", "slots")
#: Data whose targets are as long as their sources, for models with an encoder.
LONG_TARGETS = ("pairs", "files", "copying", "longer", "scan")


def a_table_for_each_position(section: Section, sections: list[Section]) -> Broken:
    """A layer with a table of `max_length` positions reads rows of at most that length."""
    longest, length = section.settings.get("max_length"), _rows_length(section, sections)
    if longest is None or length is None or length <= longest or not _has_table(section, length, longest):
        return None
    return "max_length", f"{longest} positions are too few for rows of {length} tokens; set it to {length} or more"


def _has_table(section: Section, length: int, longest: int) -> bool:
    """Whether the layer's table has no place for some position or block of a row of `length`."""
    if section.family.endswith("attention") and section.kind in WITH_BLOCKS:
        size = section.settings["block_size"]
        return -(-length // size) > -(-longest // size)
    return not section.family.endswith("attention") or section.kind in WITH_A_TABLE


def _rows_length(section: Section, sections: list[Section]) -> int | None:
    """The longest row that a layer reads, or None if it is not known."""
    model, data = kind_of("model", sections), next((one for one in sections if one.family == "data"), None)
    if data is None:
        return None
    packed = kind_of("batching", sections) == "packed"
    batching = next((one for one in sections if one.family == "batching"), data)
    length = batching.settings.get("max_length", data.settings.get("max_length"))
    side = section.path.removeprefix("config.model.").partition(".")[0]
    if section.family == "positions" and packed:  # the positions of a packed row begin again with each example
        return None
    if model in READ_SOURCES and (side == "encoder" or section.family == "cross_attention"):
        return None if kind_of("encoder", sections) in OTHER_POSITIONS else length
    if side == "decoder" and (model == "transformer_decoder" or (model in READ_SOURCES and data.kind in LONG_TARGETS)):
        return length
    return length if section.family == "model" and model == "recurrent_language_model" else None

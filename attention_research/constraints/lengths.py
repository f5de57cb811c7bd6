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
#: Data whose rows have `max_length` tokens in the source, in the target, or in both.
_PAIRS = ("pairs", "files", "copying", "longer", "scan")
WHOLE_SOURCES = (*_PAIRS, "naming", "listops", "labelled")
WHOLE_TARGETS = (*_PAIRS, "windows", "recall", "induction", "equations")
#: The same for objectives on running text.
OF_SOURCES = ("bert_style", "deshuffling", "masked_tokens")
OF_TARGETS = (*OF_SOURCES, "language_model")


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
    model, data = kind_of("model", sections), kind_of("data", sections)
    objective, packed = kind_of("objective", sections), kind_of("batching", sections) == "packed"
    if section.family == "positions" and packed:  # the positions of a packed row begin again with each example
        return None
    side = section.path.removeprefix("config.model.").partition(".")[0]
    if model in READ_SOURCES and (side == "encoder" or section.family == "cross_attention"):
        whole = data in WHOLE_SOURCES or objective in OF_SOURCES
        known = whole and kind_of("encoder", sections) not in OTHER_POSITIONS
    elif (model in (*READ_SOURCES, "transformer_decoder") and side == "decoder") or section.family == "model":
        known = data in WHOLE_TARGETS or objective in OF_TARGETS
    else:
        known = False
    rows = [one for family in ("batching", "data") for one in sections if one.family == family]
    return next((one.settings["max_length"] for one in rows if "max_length" in one.settings), None) if known else None

"""Constraints between the lengths of rows and the tables of positions that read them.

A layer with a table of `max_length` positions cannot read a longer row. `READS` says which rows each part of a model
reads, and `constraints.rows` how long they are.
"""

from __future__ import annotations

from attention_research.constraints import rows
from attention_research.constraints.packing import COUNT_IN_A_ROW
from attention_research.constraints.rows import Row
from attention_research.constraints.section import Broken, Section, first_of, section_at

#: Kinds of attention with a table, a projection or a filter for `max_length` positions.
WITH_A_TABLE = (*COUNT_IN_A_ROW, "linformer", "dot_synthesizer", "hyena", "log_linear")
#: Those with a table for the blocks of `max_length` positions, as many as `block_size` gives.
WITH_BLOCKS = ("sinkhorn", "bigbird")
_SOURCES, _TARGETS, _CELLS, _PATCHES = ("source",), ("target",), ("cells",), ("patches",)
#: Model -> part -> the arrays of a batch whose rows it reads, or the cells or patches of an image. The path of a part
#: is below that of the model. A part that is named decoder also reads what it writes.
READS: dict[str, dict[str, tuple[str, ...]]] = {
    "transformer": {"encoder": _SOURCES, "decoder": _TARGETS},
    "shared_transformer": {"encoder": _SOURCES, "decoder": _TARGETS},
    "transformer_decoder": {"decoder": _TARGETS},
    "language_model": {"decoder": ("source", "target")},
    "recurrent_language_model": {"": _TARGETS},
    "transformer_encoder": {"encoder": _SOURCES},
    "cloze_classifier": {"encoder": _SOURCES},
    "encoder_classifier": {"encoder": _SOURCES},
    "pair_classifier": {"encoder": ("source", "other")},
    "transformer_captioner": {"encoder": _CELLS, "decoder": _TARGETS},
    "image_question_classifier": {"encoder": _SOURCES, "places": _CELLS, "reader": _CELLS},
    "vision_transformer": {"encoder": _PATCHES},
    "query_model": {"network.stack": _SOURCES},
    "series": {"network.stack": ("series",)},
}
#: Encoder with states of its own -> the setting with their number, and what they are.
STATES = {"perceiver": ("num_latents", "latents"), "slots": ("num_slots", "slots")}
#: Models whose decoder reads a source and then a target, and has twice `max_length` positions.
ONE_AFTER_THE_OTHER = ("language_model",)


def a_table_for_each_position(section: Section, sections: list[Section]) -> Broken:
    """A layer with a table of `max_length` positions reads rows of at most that length."""
    table, model = section.settings.get("max_length"), first_of("model", sections)
    if table is None or model is None or (section.family.endswith("attention") and not _has_table(section)):
        return None
    part = _part(section, model)
    if part is None:
        return None
    longest = rows.longest(_rows(section, model, part, sections))
    needed = -(-longest.length // 2) if model.kind in ONE_AFTER_THE_OTHER else longest.length
    if needed <= table or (section.kind in WITH_BLOCKS and _blocks(section, needed) <= _blocks(section, table)):
        return None
    return "max_length", f"{table} positions are too few for {longest.words}; set it to {needed} or more"


def _has_table(section: Section) -> bool:
    return section.kind in (*WITH_A_TABLE, *WITH_BLOCKS)


def _blocks(section: Section, length: int) -> int:
    """The number of blocks of `length` positions."""
    return -(-length // section.settings["block_size"])


def _part(section: Section, model: Section) -> str | None:
    """The part of the model to which a section belongs, of those in `READS`."""
    below = section.path.removeprefix(model.path).removeprefix(".")
    return next((part for part in READS.get(model.kind, {}) if f"{below}.".startswith(f"{part}.")), None)


def _rows(section: Section, model: Section, part: str, sections: list[Section]) -> list[Row]:
    """The longest rows that a layer with a table reads."""
    encoder = section_at(f"{model.path}.encoder", sections)
    memory = part == "decoder" and section.family == "cross_attention"
    if encoder is None or not (memory or (part == "encoder" and section.family == "encoder_attention")):
        return _read(section, model, part, sections)
    if encoder.kind in STATES:
        return [rows.states(encoder, *STATES[encoder.kind])]
    read = _read(section, model, "encoder", sections)
    return [rows.pooled(encoder, row) for row in read] if memory and encoder.kind == "funnel" else read


def _read(section: Section, model: Section, part: str, sections: list[Section]) -> list[Row]:
    """The longest rows that enter a part of a model."""
    arrays = READS[model.kind][part]
    if arrays == _CELLS:
        return rows.cells(model, sections)
    if arrays == _PATCHES:
        return rows.patches(model)
    if section.settings["max_length"] >= rows.named(sections):
        return []
    alone = section.family == "positions"
    times = [{name: rows.of_batches(name, sections, alone=alone) for name in arrays}]
    if "decoder" in READS[model.kind]:
        times.append({name: row for name, row in rows.of_generate(model, sections).items() if name in arrays})
    if model.kind in ONE_AFTER_THE_OTHER:
        return [rows.joined(*found.values()) for found in times if found]
    return [row for found in times for row in found.values()]

"""Constraints between data and the model that reads them."""

from __future__ import annotations

from attention_research.constraints.section import Broken, Section, kind_of, section_at

#: Models that copy words of their source.
COPYING = ("conv_attention", "copy_attention", "pointer_generator")


def words_that_are_copied(section: Section, sections: list[Section]) -> Broken:
    """Only a copying model can read and write words beyond its vocabulary."""
    model = kind_of("model", sections)
    if not section.settings["extended"] or model in COPYING:
        return None
    return "extended", f"{model} has no words beyond its vocabulary; set it to false"


def a_context_that_is_read(section: Section, sections: list[Section]) -> Broken:
    """Language models without a source read only the row that they predict."""
    model, context = kind_of("model", sections), section.settings["context"]
    if not context or model not in ("transformer_decoder", "recurrent_language_model"):
        return None
    return "context", f"{model} does not read the {context} tokens before a row; set it to 0"


def rows_hold_an_example(section: Section, sections: list[Section]) -> Broken:
    """Evaluation has each example in one row, and truncates it to the length of the data only."""
    data, rows = section_at(section.path.rpartition(".")[0], sections), section.settings["max_length"]
    longest = rows if data is None else data.settings.get("max_length", rows)
    if rows >= longest:
        return None
    what = f"rows of {rows} tokens are too short for examples of up to {longest} tokens (data.max_length)"
    return "max_length", f"{what}; set it to {longest} or more"

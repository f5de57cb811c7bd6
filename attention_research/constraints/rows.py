"""The lengths of the rows that models read: rows of a batch, texts of `generate`, and cells or patches of an image.

The data give the shapes of their batches (`train_shapes`) from their settings alone. To build them imports NumPy, so
they are asked only where a table of positions is shorter than the lengths that the config names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from attention_research.constraints.section import Section, first_of, section_at

#: Image features -> by how much the side of an image is divided, rounded up.
STRIDES = {
    "cnn": lambda settings: 2 ** settings["halvings"],
    "resnet": lambda settings: 4,
    "mobilenet_v2": lambda settings: settings["stride"],
}


class Row(NamedTuple):
    """The `length` of a row, and what it is in words."""

    length: int
    words: str


#: The row of a part that reads nothing, or whose length is unknown.
NONE = Row(0, "nothing")


def longest(found: Iterable[Row]) -> Row:
    """The longest row, the first of several; a row of length 0 if there are none."""
    return max(found, key=lambda row: row.length, default=NONE)


def joined(*parts: Row) -> Row:
    """A row that holds these rows one after the other."""
    return Row(sum(part.length for part in parts), ", followed by ".join(part.words for part in parts))


def named(sections: list[Section]) -> int:
    """The largest number of tokens that the config names. No text is longer."""
    there = [one.settings for one in sections if one.family in ("experiment", "data", "batching", "model")]
    return max((settings.get(name) or 0 for settings in there for name in ("max_length", "context")), default=0)


def of_batches(array: str, sections: list[Section], *, alone: bool) -> Row:
    """The longest row of an array in training and evaluation. With `alone`, positions begin again with each example of
    a packed row, and the longest row is that of an evaluation, with one example."""
    data, batching = first_of("data", sections), first_of("batching", sections)
    made = None if data is None else data.made()
    if data is None or made is None:
        return NONE
    length = max((shapes[array][1] for shapes in made.train_shapes(1) if array in shapes), default=0)
    if alone and batching is not None and batching.kind == "packed":
        longest = min(data.settings["max_length"], length)
        length = min(padded for padded in batching.made().evaluation_lengths() if padded >= longest)
        length = min(length, (made.target_length if array == "target" else None) or length)
    return Row(length, f"rows of {length} tokens")


def of_generate(model: Section, sections: list[Section]) -> dict[str, Row]:
    """The longest source that `generate` gives to a model, and the longest text that the model writes
    (`training.generating`). Empty if the data can read neither new texts nor images."""
    data = first_of("data", sections)
    made = None if data is None else data.made()
    if data is None or made is None or not (hasattr(made, "read") or "image" in made.train_shapes(1)[0]):
        return {}
    source, limit = data.settings.get("max_length", 0), model.settings["max_length"]
    target = min(limit, made.target_length or limit)
    return {
        "source": Row(source, f"sources of {source} tokens in `generate`"),
        "target": Row(target, f"texts of {target} tokens, which the model may write"),
    }


def cells(model: Section, sections: list[Section]) -> list[Row]:
    """The cells of the feature map of an image. Empty for features of which the stride is unknown."""
    features, side = section_at(f"{model.path}.features", sections), sections[0].settings.get("side")
    if features is None or side is None or features.kind not in STRIDES:
        return []
    length = (-(-side // STRIDES[features.kind](features.settings))) ** 2
    return [Row(length, f"{length} cells of an image")]


def patches(model: Section) -> list[Row]:
    """The patches of an image, with a class token if there is one (`models.vision_transformer`)."""
    settings = model.settings
    token = settings["pooling"] == "class_token"
    length = (settings["side"] // settings["patch_side"]) ** 2 + token
    return [Row(length, f"{length} patches of an image" + (" with the class token" if token else ""))]


def states(encoder: Section, setting: str, words: str) -> Row:
    """The states of an encoder whose number is a setting."""
    return Row(encoder.settings[setting], f"{encoder.settings[setting]} {words}")


def pooled(encoder: Section, row: Row) -> Row:
    """The states of a Funnel for a row: each block after the first halves the length, rounded up."""
    length = -(-row.length // 2 ** (encoder.settings["blocks"] - 1))
    return Row(length, f"{length} pooled positions of {row.words}")

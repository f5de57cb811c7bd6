"""Random access to any TFDS set with images: dictionaries in which "image" is a uint8 array [Y X C], 0 to 255.

`pictures` decodes them; TensorFlow is not needed.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from attention_research.data import sources
from attention_research.data.pictures import MODES, array_of, decoded

#: The number of examples that are read at once if only one feature is used.
_AT_ONCE = 1000


class Images(Sequence):
    """One split: index -> {"image": uint8 [Y X C], and all other features unchanged}; texts are str, in order."""

    def __init__(self, source: Any, channels: int, name: str = "a set"):
        self._source, self._channels, self._name = source, channels, f"a picture of {name}"

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]  # no slices
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several examples at once, which is faster; grain uses this method, too."""
        for index in indices:
            if not 0 <= index < len(self):
                raise IndexError(index)
        return [self._example(one) for one in self._read(indices)]

    def feature(self, name: str) -> np.ndarray:
        """One feature of every example, without decoding an image."""
        parts = (range(start, min(start + _AT_ONCE, len(self))) for start in range(0, len(self), _AT_ONCE))
        return np.asarray([one[name] for part in parts for one in self._read(part)])

    def _read(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        places = [int(index) for index in indices]
        many = getattr(self._source, "__getitems__", None)  # TFDS's sources have it, a list does not
        return many(places) if many else [self._source[place] for place in places]

    def _example(self, stored: dict[str, Any]) -> dict[str, Any]:
        image = stored["image"]
        if isinstance(image, bytes):  # an array under TFDS's own `mock_data`
            image = decoded(image, self._channels, self._name)
        return {name: image if name == "image" else _as_text(value) for name, value in stored.items()}


def open_images(name: str, split: str) -> Images:
    """One split of a set, with its images at their original sizes.

    Raises `ConfigError` if the split or the set does not exist, and `RunError` if the set is not on this machine.
    """
    import tensorflow_datasets as tfds

    source = sources.data_source(name, split, decoders={"image": tfds.decode.SkipDecoding()})
    return Images(source, sources.builder(name).info.features["image"].shape[-1], f"{name} ({split})")


def _as_text(value: Any) -> Any:
    """Decodes texts: TFDS gives bytes, also inside sequences and dictionaries of features."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {name: _as_text(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        return [_as_text(one) for one in value]
    return value


# Pictures and arrays


def encoded(image: np.ndarray) -> bytes:
    """uint8 [Y X C] as a PNG file, which an Image feature of TFDS accepts without TensorFlow."""
    file = io.BytesIO()
    _picture(image).save(file, format="PNG")
    return file.getvalue()


def middle(image: np.ndarray) -> np.ndarray:
    """The largest square at the centre of an image [Y X C].

    >>> middle(np.arange(10).reshape(2, 5, 1))[..., 0].tolist()
    [[1, 2], [6, 7]]
    """
    height, width, _ = image.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return image[top : top + side, left : left + side]


def resized(image: np.ndarray, side: int | None, channels: int | None = None) -> np.ndarray:
    """A whole image [Y X C] as [side side channels]: the longer side becomes `side`, the rest is filled with white.

    Uses Pillow's triangle filter with antialiasing. Colours become grey with the weights of ITU-R 601-2, and grey
    becomes three equal channels. If `side` or `channels` is None, it is not changed.
    """
    picture = _picture(image)
    if channels is not None:
        picture = picture.convert(MODES[channels])
    if side is None or picture.size == (side, side):
        return array_of(picture)
    scale = side / max(picture.size)
    width, height = (max(1, round(length * scale)) for length in picture.size)
    square = Image.new(picture.mode, (side, side), "white")
    smaller = picture.resize((width, height), Image.Resampling.BILINEAR)
    square.paste(smaller, ((side - width) // 2, (side - height) // 2))
    return array_of(square)


def _picture(image: np.ndarray) -> Image.Image:
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)

"""Any TFDS set with images by name, as random access to dictionaries whose "image" is a uint8 array [Y X C], 0 to 255.

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

#: Examples that are read at once where only one feature is looked at.
_AT_ONCE = 1000


class Images(Sequence):
    """One split: index -> {"image": uint8 [Y X C], every other feature as it is}; texts are str, their order kept."""

    def __init__(self, source: Any, channels: int, name: str = "a set"):
        self._source, self._channels, self._name = source, channels, f"a picture of {name}"

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]  # no slices
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several at once, which is faster; grain asks so, too."""
        for index in indices:
            if not 0 <= index < len(self):
                raise IndexError(index)
        return [self._example(one) for one in self._read(indices)]

    def feature(self, name: str) -> np.ndarray:
        """One feature of every example; no image is decoded for it."""
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
    """One split of a set; its images are as it has them, of any sizes.

    Raises `ConfigError` for a split or a set that does not exist, `RunError` where the set is not on this machine.
    """
    import tensorflow_datasets as tfds

    source = sources.data_source(name, split, decoders={"image": tfds.decode.SkipDecoding()})
    return Images(source, sources.builder(name).info.features["image"].shape[-1], f"{name} ({split})")


def _as_text(value: Any) -> Any:
    """TFDS gives bytes for texts and a list of each feature for a sequence of features."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {name: _as_text(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        return [_as_text(one) for one in value]
    return value


# Pictures and arrays


def encoded(image: np.ndarray) -> bytes:
    """uint8 [Y X C] as a PNG file: what an Image feature of TFDS takes without TensorFlow."""
    file = io.BytesIO()
    _picture(image).save(file, format="PNG")
    return file.getvalue()


def middle(image: np.ndarray) -> np.ndarray:
    """The largest square around the middle of an image [Y X C].

    >>> middle(np.arange(10).reshape(2, 5, 1))[..., 0].tolist()
    [[1, 2], [6, 7]]
    """
    height, width, _ = image.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return image[top : top + side, left : left + side]


def resized(image: np.ndarray, side: int | None, channels: int | None = None) -> np.ndarray:
    """A whole image [Y X C] in [side side channels]: its longer side is `side`, beside its shorter one is white.

    Pillow's triangle filter, which antialiases. Colours become grey as ITU-R 601-2 weighs them, grey becomes three
    equal channels; `side` or `channels` None leaves them as they are.
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

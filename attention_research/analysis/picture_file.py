"""Saves figures as PNG files with a palette and a limited size, since many of them are recorded."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

#: The maximum size of a file.
MOST_BYTES = 80_000
DPI = 110
_COLOURS = (128, 64)
_SMALLER = (1.0, 0.8, 0.65, 0.5, 0.35)


def save(figure: Any, path: Path, *, dpi: float = DPI, **options: Any) -> None:
    """Writes a matplotlib figure with at most `MOST_BYTES` bytes, by reducing the resolution and the number of colours.

    `options` are passed to `savefig`.
    """
    for scale in _SMALLER:
        drawn = BytesIO()
        pillow = {"compress_level": 1}
        figure.savefig(drawn, format="png", dpi=dpi * scale, metadata={"Software": None}, pil_kwargs=pillow, **options)
        with Image.open(drawn) as read:
            image = read.convert("RGB")
        for colours in _COLOURS:
            found = _with_palette(image, colours)
            if len(found) <= MOST_BYTES:
                break
        else:
            continue
        break
    path.write_bytes(found)


def _with_palette(image: Image.Image, colours: int) -> bytes:
    """The image as PNG with a reduced number of colours. There is no dithering, which would blur lines and letters."""
    written = BytesIO()
    reduced = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    reduced.save(written, format="PNG", optimize=True)
    return written.getvalue()

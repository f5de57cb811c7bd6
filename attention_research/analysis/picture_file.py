"""Saves figures as PNG files with a palette and a limited size, since many of them are recorded."""

from __future__ import annotations

import textwrap
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from attention_research.training.workdir import replacing

#: The maximum size of a file, in bytes.
MOST_BYTES = 80_000
DPI = 110
_COLOURS = (256, 64)
_SMALLER = (1.0, 0.8, 0.65, 0.5, 0.35)
#: The width of the text below a figure, in characters per inch.
_LETTERS_AN_INCH = 14.5


def save(figure: Any, path: Path, *, below: str = "", dpi: float = DPI, **options: Any) -> None:
    """Writes a matplotlib figure with at most `MOST_BYTES` bytes, by reducing the resolution and the number of colours.

    The text `below` the figure is wrapped to its width. `options` are passed to `savefig`. Raises RunError if the file
    cannot be written; an earlier file stays as it was.
    """
    if below:
        write_below(figure, below)
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
    with replacing(path) as temporary:
        temporary.write_bytes(found)


def freeze(figure: Any) -> None:
    """Computes the layout once, so that positions on the page are known and stay as they are."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:  # otherwise it moves when `savefig` crops the page
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transSubfigure)
    for legend in filter(None, (axis.get_legend() for axis in figure.axes)):
        legend.set_in_layout(True)  # so that `savefig` does not crop a legend beside a panel


def write_below(figure: Any, text: str) -> None:
    """Writes a text below everything that a figure shows."""
    freeze(figure)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    wrapped = textwrap.fill(text, max(20, int(box.width * _LETTERS_AN_INCH)))
    place = {"x": box.x0 / width, "y": (box.y0 - 0.1) / height, "ha": "left", "va": "top"}
    figure.text(s=wrapped, fontsize=9, color="#444444", linespacing=1.3, parse_math=False, **place)


def _with_palette(image: Image.Image, colours: int) -> bytes:
    """The image as PNG with a reduced number of colours. There is no dithering, which would blur lines and letters."""
    written = BytesIO()
    reduced = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    reduced.save(written, format="PNG", optimize=True)
    return written.getvalue()

"""Checks and writes the file of `generate --attention=FILE`: an HTML page or a PNG picture, by the suffix."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attention_research.errors import ConfigError, RunError

if TYPE_CHECKING:
    from attention_research.analysis.attention import Attention
    from attention_research.analysis.picture_attention import PictureAttention

SUFFIXES = (".html", ".png")


def check(path: Path, sentences: int) -> None:
    """Raises ConfigError if the arguments are wrong, and RunError if matplotlib is missing.

    Call this before the model is read.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--attention={path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    if sentences != 1:
        raise ConfigError(f"--attention={path}: one sentence is drawn, but --input gives {sentences}; give one")
    if path.is_dir():
        raise ConfigError(f"--attention={path}: this is a folder; give a file's name")
    if not path.parent.is_dir():
        raise ConfigError(f"--attention={path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"--attention={path}: {path.parent} cannot be written to")
    if path.suffix == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise RunError(
            f"--attention={path}: a .png needs matplotlib, the extra `report`: pip install 'attention_research[report]'"
            "; an .html file does not need it"
        )


def write(path: Path, attention: Attention) -> None:
    """Writes the page or the picture of a sentence. Raises RunError if the file cannot be written."""
    with _one_line(path):
        if path.suffix == ".html":
            from attention_research.analysis.attention_page import page

            path.write_text(page(attention), encoding="utf-8")
        else:
            from attention_research.analysis.attention_picture import draw

            draw(attention, path)


def write_picture(path: Path, attention: PictureAttention) -> None:
    """Writes the page or the strip of a captioned image. Raises RunError if the file cannot be written."""
    with _one_line(path):
        if path.suffix == ".html":
            from attention_research.analysis.picture_page import page

            path.write_text(page(attention), encoding="utf-8")
        else:
            from attention_research.analysis.picture_strip import draw

            draw(attention, path)


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"--attention={path}: not written: {error.strerror or error}") from error

"""Pictures as files: bounded in size, with a palette that keeps white, black, greys and the lines' colours."""

import numpy as np
import pytest
from PIL import Image

from attention_research.analysis.picture_file import DPI, MOST_BYTES, save

figures = pytest.importorskip("matplotlib.figure")


def test_colours_stay_and_the_size_is_bounded(tmp_path):
    figure = figures.Figure(figsize=(4, 3), facecolor="white")
    axes = figure.subplots()
    axes.imshow(np.linspace(0, 1, 16).reshape(4, 4), cmap="gray", vmin=0, vmax=1)
    axes.plot([0, 3], [0, 3], color="#D55E00", linewidth=4)
    save(figure, tmp_path / "plain.png")
    with Image.open(tmp_path / "plain.png") as picture:
        assert picture.mode == "P" and picture.size == (4 * DPI, 3 * DPI)
        pixels = np.asarray(picture.convert("RGB"), int)
    for colour in ((255, 255, 255), (0, 0, 0), (0xD5, 0x5E, 0x00), (51, 51, 51)):
        assert np.abs(pixels - colour).max(-1).min() <= 3, colour

    noise = figures.Figure(figsize=(4, 4))
    noise.subplots().imshow(np.random.default_rng(0).random((400, 400, 3)), interpolation="nearest")
    save(noise, tmp_path / "noise.png")
    assert (tmp_path / "noise.png").stat().st_size <= MOST_BYTES

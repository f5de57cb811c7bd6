"""The figure and the PNG: panels hold the weights, axes the tokens, and a long sentence keeps the picture bounded.

The palette of the PNG keeps white, black, greys and the colours of lines.
"""

import numpy as np
import pytest
from PIL import Image

from attention_research.analysis.attention import OUTPUT, Attention, AttentionMap, Layers, Pass
from attention_research.analysis.picture_file import DPI, MOST_BYTES, save

figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (the extra `report`)")
from attention_research.analysis.attention_picture import draw, figure_of  # noqa: E402


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title(loc="left")]


def names(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_a_panel_for_each_layer_and_head_with_tokens_on_its_axes(awkward):
    figure = figure_of(awkward)
    drawn = iter(panels(figure))
    for one in awkward.passes[0].maps:
        for l, number in enumerate(one.layers.numbers):
            for n in range(3):
                axes = next(drawn)
                assert axes.get_title(loc="left") == f"layer {number} · head {n + 1}"
                np.testing.assert_array_equal(axes.images[0].get_array(), one.weights[l, n])
                np.testing.assert_array_equal(axes.lines[0].get_xdata(), one.weights[l, n].argmax(-1))
                shorten = lambda name: name if len(name) <= 14 else name[:13] + "…"
                assert names(axes.xaxis) == [shorten(name) for name in one.keys]
                assert names(axes.yaxis) == ([shorten(name) for name in one.queries] if n == 0 else [])
    assert next(drawn, None) is None
    said = "\n".join(text.get_text() for text in figure.texts)
    assert "source: costs $5 </script> & $6\nmodel output: it <costs> $7\n" in said and "step 1,000" in said
    assert all(one.title in said for one in awkward.passes[0].maps)


def test_negative_weights_have_a_colour_of_their_own(awkward, signed):
    """A scale from 0 up would draw them as zeros."""
    for attention, (name, least, words) in ((awkward, ("Blues", 0.0, False)), (signed, ("RdBu", -1.0, True))):
        figure = figure_of(attention)
        image, weights = panels(figure)[0].images[0], attention.passes[0].maps[0].weights
        most = np.abs(weights).max()
        assert (image.cmap.name, *image.get_clim()) == (name, pytest.approx(least * most), pytest.approx(most))
        assert ("red cells have negative weights" in "".join(text.get_text() for text in figure.texts)) == words


@pytest.mark.slow
def test_dollar_signs_are_drawn_literally(awkward, tmp_path):
    """matplotlib would typeset "$x$" as mathematics. Panels do not overlap."""
    from matplotlib import image

    draw(awkward, tmp_path / "a.png")
    pixels = image.imread(tmp_path / "a.png")
    figure = figure_of(awkward)
    height, width = (round(110 * inches) for inches in figure.get_size_inches()[::-1])
    assert abs(pixels.shape[0] - height) <= 1 and abs(pixels.shape[1] - width) <= 1
    assert not any(text.get_parse_math() for axes in panels(figure) for text in axes.get_xticklabels())
    boxes = [axes.get_position() for axes in figure.axes]
    assert all(0 <= box.x0 and box.x1 <= 1 and 0 <= box.y0 and box.y1 <= 1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.slow
def test_a_long_sentence_has_fewer_names_and_a_bounded_picture():
    tokens = tuple(f"piece {i}" for i in range(200))
    weights = np.full((2, 4, 200, 200), 1 / 200, np.float32)
    maps = (AttentionMap("cross-attention", "written", "source", tokens, tokens, weights, Layers((1, 2), 2)),)
    long = Attention((Pass(OUTPUT, "x " * 200, "y", maps),), {})
    figure = figure_of(long)
    width, height = figure.get_size_inches()
    assert width * height * 110**2 < 40e6
    assert len(panels(figure)) == 8
    shown = names(panels(figure)[0].xaxis)
    every = 200 // len(shown)
    assert every > 1 and shown == list(tokens[::every])
    assert any(f"one name for every {every} tokens" in text.get_text() for text in figure.texts)
    assert panels(figure)[0].get_position().width * width / len(shown) >= 0.11  # inches for each name


@pytest.mark.slow
def test_colours_are_kept_and_the_size_is_bounded(tmp_path):
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

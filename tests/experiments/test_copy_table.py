"""The table of one function by hand, the figure's cells, and the nearest bodies against a dense computation."""

import dataclasses
import json

import numpy as np
import pytest

from attention_research.experiments.allamanis2016.copy_table import CopyTable, figure_of, table_of
from attention_research.experiments.allamanis2016.naming_run import nearest_names, spelled


@pytest.fixture(scope="module")
def table():
    """Body "self use cache", prediction "use END". The third position ends the source, the last is padding."""
    rng = np.random.default_rng(0)
    found = {"alpha": rng.random((3, 5)), "kappa": rng.random((3, 5)), "copy_probability": np.array([0.9, 0.1, 0.5])}
    words = ["self", "use", "cache", "<end>", "<padding>", "use", "<end>", "<padding>"]
    made = table_of("a.py:1", words, "use it", np.array([5, 6, 77, 2, 0]), np.array([6, 2, 0]), found)
    return made, found


def test_rows_are_those_of_the_words(table):
    made, found = table
    assert (made.body, made.name, made.wrote) == (("self", "use", "cache"), ("use", "it"), ("use", "END"))
    np.testing.assert_array_equal(made.alpha, found["alpha"][:2, :3])
    np.testing.assert_array_equal(made.kappa, found["kappa"][:2, :3])
    assert made.copy_probability == (0.9, 0.1)
    best = made.body[int(np.argmax(found["kappa"][0, :3]))]
    assert made.words().startswith(f"use lambda 0.900 kappa {best} alpha ")


def test_the_table_survives_recording(table):
    again = CopyTable.from_json(json.loads(json.dumps(table[0].to_json())))
    np.testing.assert_allclose(again.alpha, table[0].alpha, atol=5e-5)
    assert (again.body, again.wrote, again.copy_probability) == (table[0].body, table[0].wrote, (0.9, 0.1))


def test_the_figure_has_both_rows_of_every_sub_token(table):
    made, found = table
    figure = figure_of([made], [("set", 0.012)], longest=2)
    weights, bars, printed = figure.findobj(lambda artist: type(artist).__name__ == "Axes")
    (image,) = weights.images
    expected = np.stack([found["alpha"][0], found["kappa"][0], found["alpha"][1], found["kappa"][1]])[:, :2]
    np.testing.assert_array_equal(image.get_array(), expected)
    assert [label.get_text() for label in weights.get_yticklabels()] == ["use  α", "κ", "END  α", "κ"]
    assert weights.get_xlabel() == "1 more tokens of the body are not shown"
    assert [bar.get_width() for bar in bars.patches] == [0.9, 0.1]
    assert [bar.get_width() for bar in printed.patches] == [0.012]


def test_a_heading_stands_closer_to_its_own_table_than_to_the_one_above(table):
    short, long = table[0], dataclasses.replace(table[0], body=("a", "b", "c" * 12), name=("word",) * 40)
    figure = figure_of([short, long, short])
    renderer = figure.canvas.get_renderer()
    figure.canvas.draw()
    headings = [text.get_window_extent(renderer) for part in figure.subfigs for text in part.texts]
    tables = [part.axes[0].get_tightbbox(renderer) for part in figure.subfigs]
    for heading, own, above in zip(headings, tables, [None, *tables], strict=False):
        assert heading.y0 > own.y1 and heading.x1 < figure.bbox.x1
        assert above is None or above.y0 - heading.y1 > heading.y0 - own.y1


def test_copied_positions_become_the_ids_at_these_positions():
    written = np.array([[9, 23 + 2, 2, 0], [23 + 0, 5, 23 + 1, 2]])
    source = np.array([[5, 6, 77], [99, 5, 2]])
    assert spelled(written, source, 23).tolist() == [[9, 77, 2, 0], [99, 5, 5, 2]]


def test_nearest_bodies_are_those_of_the_dense_cosines():
    rng = np.random.default_rng(1)
    vocabulary = [f"w{i}" for i in range(13)]
    draw = lambda count: [" ".join(rng.choice(vocabulary, rng.integers(1, 9))) for _ in range(count)]
    bodies, asked = draw(37), draw(11)
    names = [f"name {i % 29}" for i in range(37)]
    counts = lambda texts: np.array([[text.split().count(word) for word in vocabulary] for text in texts], float)
    weigh = lambda counts: np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0)
    idf = np.log(37 / np.maximum((counts(bodies) > 0).sum(0), 1))
    ours, theirs = weigh(counts(bodies)) * idf, weigh(counts(asked)) * idf
    cosine = theirs @ ours.T / np.maximum(np.linalg.norm(ours, axis=1), 1e-9)
    for found, row in zip(nearest_names(bodies, names, asked, 3), cosine, strict=True):
        near = list(dict.fromkeys(names[i] for i in np.argsort(-np.round(row, 9), kind="stable")))
        assert found == near[:3]

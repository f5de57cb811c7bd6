"""Names of points: none covers another name or a point, and none leaves the panel."""

import itertools

import numpy as np
import pytest

from attention_research.studies.figure_style import canvas
from attention_research.studies.point_labels import label_points

CLOSE = [(1.0, 1.0), (1.02, 1.0), (1.01, 1.03), (4.9, 4.9), (5.0, 0.0), (0.0, 5.0)]
NAMES = ["the first name", "the second name", "the third name", "a name at the corner", "right", "top"]


@pytest.fixture
def panel():
    figure, axis = canvas().subplots(figsize=(4, 3))
    axis.plot(*zip(*CLOSE, strict=True), "o")
    return figure, axis


def test_names_cover_neither_names_nor_points_nor_the_edge(panel):
    figure, axis = panel
    assert label_points(axis, NAMES, CLOSE) == NAMES
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    points = axis.transData.transform(CLOSE)
    assert not any(box.contains(*point) for box in boxes for point in points)
    inside = axis.get_window_extent()
    assert all(box.x0 >= inside.x0 - 1 and box.x1 <= inside.x1 + 1 for box in boxes)


def test_a_name_without_a_place_is_left_out_only_if_it_may_be(panel):
    _, axis = panel
    crowd = [(x, y) for x in np.linspace(0, 5, 40) for y in np.linspace(0, 5, 40)]
    assert label_points(axis, NAMES[:1], CLOSE[:1], other=crowd, must=False) == [] and not axis.texts
    assert label_points(axis, NAMES[:1], CLOSE[:1], other=crowd) == NAMES[:1]

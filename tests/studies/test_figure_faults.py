"""The checks of recorded figures find each fault in a figure that is drawn badly on purpose."""

import pytest
from figure_faults import collisions, impossible, two_meanings, without_name

from attention_research.studies.figure_style import canvas, legend


@pytest.fixture
def panels():
    """A figure with two panels of correct lines, and its panels."""
    figure, axes = canvas().subplots(1, 2, figsize=(8, 3))
    for axis in axes:
        axis.plot([1, 2, 3], [10.0, 20.0, 30.0], "o-", color="#000000", label="a row")
        axis.set(xlabel="step", ylabel="BLEU")
    return figure, axes


def test_a_correct_figure_has_no_fault(panels, monkeypatch):
    figure, _ = panels
    legend(figure)
    assert not collisions(figure, monkeypatch) + two_meanings(figure) + impossible(figure) + without_name(figure)


def test_texts_that_collide_or_are_small_are_found(panels, monkeypatch):
    figure, (left, right) = panels
    left.text(2, 20, "one label")
    left.text(2.05, 20, "another label")
    right.text(1, 12, "small", fontsize=5)
    found = collisions(figure, monkeypatch)
    assert "'one label' overlaps 'another label'" in found and "'small' has 5 points" in found


def test_a_turned_text_has_a_turned_box(panels, monkeypatch):
    figure, (left, _) = panels
    left.text(1.5, 11, "a long label at an angle", rotation=45)
    left.text(1.6, 26, "corner")  # inside of the upright box around the turned text
    assert collisions(figure, monkeypatch) == []
    left.text(1.75, 18, "middle")
    assert collisions(figure, monkeypatch) == ["'a long label at an angle' overlaps 'middle'"]


def test_a_legend_over_a_panel_and_a_wide_figure_are_found(panels, monkeypatch):
    figure, (left, _) = panels
    left.legend()
    assert collisions(figure, monkeypatch) == ["the legend ['a row'] covers a panel"]
    figure.set_size_inches(14, 3)
    assert any("inches wide" in fault for fault in collisions(figure, monkeypatch))


def test_a_label_with_two_looks_and_a_look_with_two_labels_are_found(panels):
    figure, (left, right) = panels
    right.plot([1, 2], [5.0, 6.0], "s--", color="#0072B2", label="a row")
    left.plot([1, 2], [5.0, 6.0], "o-", color="#000000", label="another row")
    first, second = two_meanings(figure)
    assert first.startswith("'a row' has the looks") and second == "['a row', 'another row'] look the same"


@pytest.mark.parametrize(
    "values, name", [([-1.0, 5.0], "BLEU"), ([90.0, 101.0], "accuracy, %"), ([0.5, 1.2], "recall")]
)
def test_an_impossible_value_is_found_in_lines_and_bands(panels, values, name):
    figure, (left, right) = panels
    for axis in (left, right):
        axis.get_lines()[0].remove()
        axis.set_ylabel(name)
    left.plot([1, 2], values)
    right.fill_between([1, 2], values, [5.0, 5.0] if name == "BLEU" else values)
    assert len(impossible(figure)) == 2


def test_an_axis_without_a_name_and_bars_above_zero_are_found(panels):
    figure, (left, right) = panels
    left.set_ylabel("")
    right.bar([1, 2], [20.0, 30.0])
    right.set_ylim(10, 40)
    assert without_name(figure) == ["panel 0 has numbers on y but no name", "the bars of panel 1 start at 10"]

"""Figures that every study has, of numbers made by hand: bounds, data that do not share a panel, styles, and the line
below."""

import dataclasses

import pytest
from figure_faults import collisions, impossible, two_meanings
from results_of import results_of

from attention_research.analysis import picture_file
from attention_research.studies import figure_caption, figures, loss_figure
from attention_research.studies.column_figures import draw_by_row
from attention_research.studies.columns import BLEU

CURVE = [[20, 5.0], [40, 3.0], [60, 2.5]]
NUMBERS = {"first": {"evaluate.bleu": [0.1, 0.1, 2.0]}, "second": {"evaluate.bleu": [99.0, 100.0, 100.0]}}


@pytest.fixture
def saved(monkeypatch):
    """The figures that were saved."""
    kept = []

    def noted(figure, path, *, below, **options):
        picture_file.write_below(figure, below)
        kept.append(figure)

    monkeypatch.setattr(picture_file, "save", noted)
    return kept


def on(found, data):
    """The same results, each row trained on the named data."""
    given = lambda entry: {"data": {"name": data[entry.trial.row]}}
    entries = [
        dataclasses.replace(entry, trial=dataclasses.replace(entry.trial, given=given(entry)))
        for entry in found.entries
    ]
    return dataclasses.replace(found, entries=tuple(entries))


def trained(rows):
    """Results of rows with two equal loss curves each."""
    numbers = {row: {"train.loss": [2.5, 2.5]} for row in rows}
    return results_of(numbers, curves={row: [CURVE, CURVE] for row in rows})


def test_an_interval_ends_where_the_metric_does(saved, tmp_path):
    assert draw_by_row(results_of(NUMBERS), BLEU, tmp_path / "bleu.png")
    (figure,) = saved
    bars = [line.get_xdata() for line in figure.axes[0].get_lines() if line.get_marker() == "|"]
    assert [min(bars[0]), max(bars[1])] == [0.0, 100.0] and max(bars[0]) < 2 and min(bars[1]) > 98
    assert impossible(figure) == []


def test_the_line_below_names_study_scale_and_seeds(saved, monkeypatch, tmp_path):
    draw_by_row(results_of(NUMBERS), BLEU, tmp_path / "bleu.png")
    (text,) = [one.get_text() for one in saved[0].texts]
    assert text.startswith("by/hand, cpu scale, 3 seeds; dots: mean") and collisions(saved[0], monkeypatch) == []
    fewer = results_of({"a": {"measure.x": [1.0, 2.0, 6.0]}, "b": {"measure.x": [1.0]}})
    assert figure_caption.seeds_said(fewer) == "1 to 3 seeds" and figure_caption.seeds_said(fewer, ["b"]) == "1 seed"
    assert figures.caption(fewer, "x", seeds="no seeds") == "by/hand, cpu scale, no seeds; x"


def test_rows_on_different_data_have_different_panels(saved, tmp_path):
    data = {"a": "bible", "b": "bible", "c": "generated"}
    found = on(trained(data), data)
    assert loss_figure.groups(found, dict.fromkeys(data)) == {"bible": ["a", "b"], "generated": ["c"]}
    loss_figure.draw_loss(found, tmp_path / "loss.png")
    shown = [[line.get_label() for line in axis.get_lines()] for axis in saved[0].axes]
    assert shown == [["a", "b"], ["c"]] and two_meanings(saved[0]) == []
    assert len({tuple(axis.get_shared_y_axes().get_siblings(axis)) for axis in saved[0].axes}) == 2
    assert loss_figure.groups(trained(data), dict.fromkeys(data)) == {"": ["a", "b", "c"]}


@pytest.mark.slow
def test_many_rows_have_a_panel_each_on_the_axes_of_their_data(saved, tmp_path):
    names = [f"r{n}" for n in range(9)]
    found = on(trained(names), {name: "bible" if n < 5 else "generated" for n, name in enumerate(names)})
    loss_figure.draw_loss(found, tmp_path / "loss.png")
    axes = saved[0].axes
    assert [axis.get_title(loc="left").split("\n") for axis in axes] == [
        ["bible" if n < 5 else "generated", name] for n, name in enumerate(names)
    ]
    strong = [[line.get_color() for line in axis.get_lines() if line.get_color() != "#d0d0d0"] for axis in axes]
    assert strong[0] == strong[5] == ["#000000"] and strong[1] == strong[8] == ["#000000", "#0072B2"]
    assert axes[0].get_shared_y_axes().joined(axes[0], axes[4])
    assert not axes[0].get_shared_y_axes().joined(axes[0], axes[5])


def test_a_row_has_one_style_in_all_figures_of_a_study():
    found = trained([f"r{n}" for n in range(12)])
    styles = figures.row_styles(found)
    assert len({tuple(map(str, style.values())) for style in styles.values()}) == 12
    assert len({style["color"] for style in list(styles.values())[:10]}) == 10
    assert figures.row_styles(found, ["r3", "r1"]) == figures.styles_of(["r1", "r3"])


def test_diverged_runs_are_named_and_do_not_cut_a_curve(saved, tmp_path):
    """Without them, the curve of the row would end where the first of them did, and the row would have no bar."""
    curves = {"first": [CURVE] * 3, "second": [CURVE[:1], CURVE, CURVE]}
    numbers = {"first": {"evaluate.bleu": [1.0, 2.0, 3.0]}, "second": {"evaluate.bleu": [float("nan"), 4.0, 6.0]}}
    found = results_of(numbers, curves=curves)
    found.entries[3].result["diverged"] = "step 21"
    drawn = loss_figure.draw_loss(found, tmp_path / "loss.png")
    assert "second 2.50" in drawn.alt and "diverged runs are left out" in drawn.title
    assert all(line.get_xdata()[-1] == 60 for line in saved[0].axes[0].get_lines()[:2])
    draw_by_row(found, BLEU, tmp_path / "bleu.png")
    labels = [text.get_text() for text in saved[1].axes[0].get_yticklabels()]
    assert labels == ["first", "second (1 diverged)"]

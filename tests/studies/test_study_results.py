"""Cells, marks, tables, figures and pages from made-up results."""

import csv
import dataclasses
import math
import re
import statistics
import subprocess
import sys

import pyarrow.parquet
import pytest
from results_of import results_of, trial

from attention_research.studies import figures, footnotes, report, tables
from attention_research.studies.columns import (
    BLEU,
    LOSS,
    PERPLEXITY,
    STEPS_PER_SECOND,
    Column,
    exponent,
    fixed,
    significant,
)
from attention_research.studies.results import Entry

TRAINED = {"evaluate.perplexity": [40.0, 44.0], "evaluate.unigram_perplexity": [300.0, 300.0]}
TRAINED |= {"evaluate.bleu": [3.0, 4.0], "evaluate.copy_bleu": [0.5, 0.5], "train.loss": [3.9, 4.1]}


def test_a_cell_is_mean_and_sample_deviation():
    found = results_of({"a": TRAINED, "single": {"train.loss": [2.5]}})
    assert found.cell("a", LOSS).text == "4.00 ± 0.14"
    assert found.cell("a", LOSS).deviation == pytest.approx(statistics.stdev([3.9, 4.1]))
    assert found.cell("a", BLEU).text == "3.5 ± 0.7" and found.cell("a", PERPLEXITY).text == "42.0 ± 2.83"
    assert found.cell("single", LOSS).text == "2.50" and found.cell("single", LOSS).deviation is None
    assert found.cell("single", BLEU).text == "" and found.cell("single", BLEU).mean is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_seed_that_diverged_leaves_a_cell_without_a_deviation(value):
    cell = results_of({"a": {"train.loss": [3.9, value]}}).cell("a", LOSS)
    assert cell.deviation is None and cell.text == f"{value:.2f}"


@pytest.mark.parametrize(
    ("changed", "mark"),
    [
        ({}, ""),
        ({"evaluate.perplexity": [299.0, 301.0]}, "no better than a baseline: perplexity not below unigram's 300"),
        ({"evaluate.bleu": [0.5, 0.5]}, "no better than a baseline: BLEU not above copying's 0.5"),
        ({"evaluate.perplexity": [math.nan, 40.0]}, "no better than a baseline: perplexity not below unigram's 300"),
    ],
)
def test_a_row_below_the_floor_is_marked(changed, mark):
    found = results_of({"a": {**TRAINED, **changed}})
    assert found.below_floor("a") == mark and found.notes("a") == [mark] * bool(mark)


def test_a_row_with_a_diverged_run_is_below_the_floor():
    found = results_of({"a": TRAINED})
    lost = {**found.entries[1].result, "stages": {"train": {"loss": 9.0}}, "diverged": "the loss is nan"}
    entries = found.entries[0], dataclasses.replace(found.entries[1], result=lost)
    mark = "no better than a baseline: perplexity not below unigram's 300 and BLEU not above copying's 0.5"
    assert dataclasses.replace(found, entries=entries).below_floor("a") == mark


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ((LOSS, STEPS_PER_SECOND), "2 trials trained together (speed and memory are those of the joint run)"),
        ((LOSS, Column("measure.steps_per_second", "steps/s", fixed(1))), "2 trials trained together"),
    ],
)
def test_speed_is_that_of_rows_trained_together_where_it_is_trainings(columns, note):
    found = results_of({"a": {"train.loss": [3.9, 4.1], "train.replicas": [2, 2]}}, columns=columns)
    assert found.notes("a") == [note]


@pytest.mark.parametrize(
    ("references", "held_to_it"),
    [
        (["B F C"], False),
        (["B F C", "a b c d"], True),
        ([["red", "a red disc"], ["red"]], False),  # a picture has several captions
        ([["red", "a red disc above"]], True),
        ([], True),
    ],
)
def test_bleu_is_no_floor_where_no_reference_has_four_words(references, held_to_it):
    samples = [{"source": "s", "reference": reference, "translation": "t"} for reference in references]
    found = results_of({"a": {**TRAINED, "evaluate.bleu": [0.5, 0.5], "evaluate.samples": [samples, samples]}})
    assert found.below_floor("a") == ("no better than a baseline: BLEU not above copying's 0.5" if held_to_it else "")


PARSED = {"evaluate.flat_f1": [30.0, 31.0]}


@pytest.mark.parametrize(
    ("f1", "mark"),
    [
        ([30.6, 30.7], ""),
        ([30.5, 30.5], "no better than a baseline: F1 not above one bracket's 30.5"),
        ([math.nan, 90.0], "no better than a baseline: F1 not above one bracket's 30.5"),
    ],
)
def test_a_parser_below_one_bracket_is_marked(f1, mark):
    assert results_of({"a": {**PARSED, "evaluate.f1": f1}}).notes("a") == [mark] * bool(mark)


def test_powers_are_fitted_within_a_seed():
    """Seed 1 has lost point 2 and seed 2 point 4: their numbers at 4 and at 2 are not one line."""
    made, trials = results_of({"a": {}}, points=(2, 4)), {(0, 2): 6.0, (0, 4): 24.0, (1, 4): 9.0, (2, 2): 5.0}
    entries = [
        Entry(trial("a", *place), {"stages": {"measure": {"ms": value}}, "diverged": None})
        for place, value in trials.items()
    ]
    assert dataclasses.replace(made, entries=tuple(entries)).powers("a", "measure.ms") == pytest.approx((2.0,))


def test_f1_is_drawn_beside_its_floor(tmp_path):
    found = results_of({"a": {**PARSED, "evaluate.f1": [80.0, 90.0]}, "b": {**PARSED, "evaluate.f1": [50.0, 52.0]}})
    (figure,) = figures.draw(found, tmp_path)
    assert figure.path.name == "f1.png" and figure.alt == "F1 by row: a 85.0 ± 7.1; b 51.0 ± 1.4."


def test_formats():
    numbers = (1234567.0, 38.12, 11.249, 0.01234, 0.0, 999.6)
    assert [significant(3)(number) for number in numbers] == ["1,230,000", "38.1", "11.2", "0.0123", "0", "1,000"]
    assert fixed(1)(1234.56) == "1,234.6"


def test_markdown_is_a_table_of_equal_lines():
    text = footnotes.markdown([["row", "loss", "notes"], ["a|b", "1.0", "x\ny"], ["long name", "", ""]])
    *lines, empty, footnote = text.splitlines()
    assert len({len(line) for line in lines}) == 1 and not empty and footnote == "- a: x y"
    assert lines[1] == "| --------- | ---: | ----- |" and lines[2].startswith("| a\\|b ")
    assert footnotes.parse(text) == [["row", "loss", "notes"], ["a|b", "1.0", "x y"], ["long name", "", ""]]


def test_all_formats_have_the_same_numbers(tmp_path):
    found = results_of({"a": TRAINED, "b": {"train.loss": [5.0, 5.5]}})
    tables.write(found, tmp_path)
    with open(tmp_path / "table.csv", newline="") as file:
        assert list(csv.reader(file)) == tables.table(found)
    assert footnotes.markdown(tables.table(found)) in (tmp_path / "table.md").read_text()
    lines = pyarrow.parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [line["train.loss"] for line in lines] == [3.9, 4.1, 5.0, 5.5]
    assert [line["evaluate.bleu"] for line in lines] == [3.0, 4.0, None, None]


def test_counts_beyond_64_bits_are_written(tmp_path):
    """The FLOPs of a long training are integers above 2^63."""
    tables.write(results_of({"a": {"train.loss": [1.0, 2.0], "measure.flops": [10**19 + 1, 7]}}), tmp_path)
    lines = pyarrow.parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [line["measure.flops"] for line in lines] == [1e19, 7.0]


COLUMNS = (
    Column("measure.milliseconds", "ms", significant(3), at_points=True),
    Column("measure.milliseconds", "ms ~ T^p", significant(3), fitted=True),
)


def test_a_measurement_has_a_column_a_point_and_its_power():
    quadratic = {"measure.milliseconds": [3.0, 12.0, 48.0]}
    found = results_of({"a": quadratic}, points=(512, 1024, 2048), columns=COLUMNS, axis="length")
    titles, line = tables.table(found)
    assert titles == ["row", "ms at 512", "ms at 1,024", "ms at 2,048", "ms ~ T^p", "seeds"]
    assert line == ["a", "3.00", "12.0", "48.0", "2.00", "1"]
    assert exponent([7], [1.0]) is None and exponent([1, 2], [0.0, 1.0]) is None


def curve(height, seed):
    return [[step, height + 6 * math.exp(-step / 200) + 0.05 * seed] for step in range(20, 620, 20)]


def test_figures_and_page(tmp_path):
    numbers = {f"r{n}": {**TRAINED, "evaluate.bleu": [n + 0.1, n + 0.9]} for n in range(9)}
    curves = {f"r{n}": [curve(3 + 0.2 * n, seed) for seed in range(2)] for n in range(9)}
    curves["r8"][1][5][1] = math.nan
    found = results_of(numbers, curves=curves)
    drawn = figures.draw(found, tmp_path)
    assert [figure.path.name for figure in drawn] == ["loss.png", "bleu.png"]
    assert all(figure.path.read_bytes().startswith(b"\x89PNG") for figure in drawn)
    assert "r3 3.5 ± 0.6" in drawn[1].alt and "r0 3." in drawn[0].alt
    page = report.page(found, [], drawn, ["attention-research reproduce a/b > <x>"])
    assert page.count("data:image/png;base64,") == 2 and "&gt; &lt;x&gt;" in page and "<x>" not in page
    assert page.count("<td") == 9 * (len(tables.table(found)[0]) - 1)


def test_the_page_shows_what_each_row_writes_for_the_same_source():
    found = results_of({"a": TRAINED, "b": TRAINED, "c": {"train.loss": [5.0]}})
    written = {"a": "one", "b": "<two>"}
    for entry in found.entries:
        if entry.trial.row in written:
            samples = [{"source": "un", "reference": ["1", "I"], "translation": written[entry.trial.row]}]
            entry.result["stages"]["evaluate"]["samples"] = samples if entry.trial.seed == 0 else []
    assert {row: one[0]["translation"] for row, one in found.samples().items()} == written
    page = report.page(found, [], [], [])
    start = page.index("<h2>What the models write</h2>")
    texts = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", page[start : page.index("</details>")])
    assert texts == ["row", "text", "source", "un", "reference", "1 | I", "a", "one", "b", "&lt;two&gt;"]
    assert "<details open><summary>un</summary>" in page and page.count("<details") == 1


def test_curves_against_points_are_drawn(tmp_path):
    numbers = {name: {"measure.milliseconds": [p**k for p in (4, 8, 16)]} for name, k in (("linear", 1), ("square", 2))}
    found = results_of(numbers, points=(4, 8, 16), columns=COLUMNS, axis="length", axis_name="T")
    (figure,) = figures.draw(found, tmp_path)
    assert figure.path.name == "milliseconds.png" and figure.alt.endswith("linear: ~ T^1.00; square: ~ T^2.00.")


def test_without_matplotlib_one_line_names_the_extra(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from attention_research.studies import figures\n"
        "from attention_research.errors import RunError\n"
        "try: figures.canvas()\n"
        "except RunError as error: print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "pictures need matplotlib, the extra `report`: pip install 'attention_research[report]'\n"


def test_means_are_over_the_existing_seeds():
    found = results_of({"a": {"measure.x": [1.0, 2.0, 6.0], "measure.by": [[1.0, 5.0], [3.0, 5.0], [5.0, 8.0]]}})
    assert found.mean("a", "measure.x") == 3.0 and found.mean_list("a", "measure.by") == [3.0, 6.0]
    assert found.mean("b", "measure.x") is None and found.mean_list("a", "measure.none") == []
    lost = results_of({"a": {"measure.by": [[1.0, None], [3.0, 5.0]]}}).mean_list("a", "measure.by")
    assert lost[0] == 2.0 and math.isnan(lost[1])

"""Table 1 of Narang et al. 2021: what is counted of our modules, against closed formulas of another hand."""

import runpy
from pathlib import Path

import pytest

from attention_research.studies import inspect_study, load_study

#: Formulas for every row, checked against graphs of the original code by their author.
FORMULAS = runpy.run_path(str(Path(__file__).with_name("narang2021_counts.py")))
ROWS = {name: build for name, _, _, build, _ in FORMULAS["ROWS"]}
FEW = ("swiglu", "block_sharing")


def assert_counts(found):
    for row in found:
        relative, learned = (ROWS[row["row"]](positions) for positions in (False, True))
        assert row["parameters"] == relative.params, row["row"]
        assert row["parameters_learned_positions"] == learned.params, row["row"]
        assert row["rules"], row["row"]


def test_every_printed_row_is_named_as_printed(root, monkeypatch):
    monkeypatch.chdir(root)
    assert [row.name for row in load_study("narang2021/table1").rows] == list(ROWS)


def test_a_few_rows_count_as_the_formulas(root, monkeypatch):
    monkeypatch.chdir(root)
    found = inspect_study("narang2021/table1", rows=FEW)
    assert [row["id"] for row in found] == list(FEW)
    assert_counts(found)
    assert all(row["operations_fit"] for row in found)


@pytest.mark.slow
def test_all_rows_that_are_built_count_as_the_formulas(root, monkeypatch):
    monkeypatch.chdir(root)
    found = {row["row"]: row for row in inspect_study("narang2021/table1")}
    assert found.keys() == ROWS.keys()
    missing = [name for name, row in found.items() if row["parameters"] is None]
    assert missing == ["Evolved Transformer"]
    assert_counts([row for row in found.values() if row["parameters"] is not None])

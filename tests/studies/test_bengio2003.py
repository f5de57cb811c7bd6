"""The printed cells and the verdicts of `bengio2003/table1`: each holds for the printed numbers, and each can fail."""

import csv

import pytest
from results_of import results_of

from attention_research.studies.loading import load_study
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

KEYS = ("training", "validation", "test", "mixed_validation", "mixed_test")
COLUMNS = ("training perplexity", "validation perplexity", "test perplexity", "with trigram, validation",
           "with trigram, test")  # fmt: skip


@pytest.fixture(scope="module")
def study():
    return load_study("bengio2003/table1")


@pytest.fixture(scope="module")
def printed(study):
    """Row -> the printed perplexities."""
    with open(study.file(study.published), encoding="utf-8", newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def numbers(printed, **changed):
    """The printed numbers as those of three runs, with others for some rows: {"mlp1": {"test": 300}}."""
    found = {}
    for row, cells in printed.items():
        values = {key: float(cells[column]) for key, column in zip(KEYS, COLUMNS, strict=True) if cells[column]}
        values |= changed.get(row, {})
        values["ratio"] = values["test"] / 321
        found[row] = {f"measure.{key}": [value, value * 1.001, value * 0.999] for key, value in values.items()}
    attention = changed.get("transformer", {"test": 240.0})["test"]
    return results_of({**found, "transformer": {"measure.test": [attention, attention * 1.001, attention * 0.999]}})


def test_the_rows_are_the_printed_ones_and_a_transformer(study, printed):
    assert {row.id for row in study.rows} == {*printed, "transformer"}
    for row, cells in printed.items():
        for of, ratio in (("test perplexity", "test / Kneser-Ney"),
                          ("with trigram, test", "with trigram, test / Kneser-Ney")):  # fmt: skip
            assert bool(cells[of]) == bool(cells[ratio]), row
            if cells[of]:
                assert float(cells[ratio]) == pytest.approx(float(cells[of]) / 321, abs=6e-4)
    assert sum(bool(cells[column]) for cells in printed.values() for column in COLUMNS) == 48
    assert tuple(study.compared.values()) == COLUMNS  # the ratios are computed, not printed


def test_claims_hold_for_the_printed_numbers(study, printed):
    results = numbers(printed)
    assert {claim: judge(results).status for claim, judge in study.verdicts.items()} == dict.fromkeys(
        study.verdicts, HELD
    )


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("network-below-kneser-ney", {"mlp3": {"test": 330.0}}),
        ("mixing-with-a-trigram-helps", {"mlp9": {"mixed_test": 280.0}}),
        ("hidden-units-help", {"mlp3": {"mixed_test": 250.0}}),
        ("longer-contexts-help-networks-alone", {"mlp7": {"test": 270.0}}),
        ("longer-contexts-help-networks-alone", {"kneser_ney_5": {"test": 300.0}}),
        ("no-direct-connections", {"mlp9": {"mixed_test": 260.0}}),
        ("word-classes-help-trigrams", {"classes_500": {"test": 330.0}}),
        ("word-classes-help-trigrams", {"classes_2000": {"validation": 320.0, "test": 310.0}}),
        ("attention-below-a-fixed-window", {"transformer": {"test": 272.0}}),
    ],
)
def test_each_claim_can_fail(study, printed, claim, changed):
    assert study.verdicts[claim](numbers(printed, **changed)).status == FAILED


def test_nothing_measured_is_not_tested(study):
    for judge in study.verdicts.values():
        assert judge(results_of({})).status == UNTESTED


def test_counted_rows_have_no_network_and_no_further_seeds(study):
    size = study.scale("paper")
    trained = {row.id for row in study.rows if row.stages is None}
    assert trained == {"mlp1", "mlp3", "mlp5", "mlp7", "mlp9", "transformer"}
    assert {row.id: size.seeds_of(row.id) for row in study.rows} == {
        row.id: 3 if row.id in trained else 1 for row in study.rows
    }

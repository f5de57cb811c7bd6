"""The conclusions from the large table, checked on made-up numbers: the conclusion must follow from them."""

import csv
import dataclasses
import sys

import numpy as np
import pytest
from results_of import results_of

STUDY = "narang2021/table1"
SEEDS = 3


@pytest.fixture(scope="module")
def answer(study):
    """The module with the study's conclusions."""
    return sys.modules[study.figures[0].func.__module__]


@pytest.fixture(autouse=True)
def no_times(answer, monkeypatch):
    """Removes the recorded speed of the real rows."""
    monkeypatch.setattr(answer, "timed", dict)


@pytest.fixture(scope="module")
def printed(root):
    with open(root / "experiments/narang2021/table1.csv", encoding="utf-8", newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def made(study, losses, speed=None):
    """Results with these final losses by row (a number, or one per seed), early losses 1.5 times as high, speeds."""
    spread = np.array([-0.01, 0.0, 0.01])
    numbers = {}
    for row, loss in losses.items():
        final = np.broadcast_to(loss, SEEDS) + (spread if np.ndim(loss) == 0 else 0)
        numbers[row] = {
            "measure.final_loss": final.tolist(),
            "measure.early_loss": (1.5 * final).tolist(),
            "train.steps_per_second": [(speed or {}).get(row, 1.0)] * SEEDS,
        }
    made_by_hand = results_of(numbers)
    return dataclasses.replace(made_by_hand, study=dataclasses.replace(study, scales=made_by_hand.study.scales))


def test_the_papers_own_numbers_correlate_fully(study, answer, printed):
    results = made(study, {row: float(cells["final loss"]) for row, cells in printed.items()},
                   {row: float(cells["steps a second"]) for row, cells in printed.items()})  # fmt: skip
    found = answer.correlations(results)
    assert found["final loss"].rho == pytest.approx(1) and found["steps a second"].rho == pytest.approx(1)
    assert found["final loss"].pairs == len(printed) == 52
    backwards = made(study, {row: -float(cells["final loss"]) for row, cells in printed.items()})
    assert answer.correlations(backwards)["final loss"].rho == pytest.approx(-1)


def test_a_row_is_better_where_all_seeds_say_so_after_the_correction(study, answer):
    base = np.array([2.0, 2.1, 1.9])
    losses = {"vanilla_transformer": base, "swiglu": base - [0.1, 0.101, 0.1], "gelu": base - [0.1, -0.02, 0.03]}
    results = made(study, losses | {"fixup": base + 0.3})
    found = answer.differences(results)
    assert list(found) == ["swiglu", "gelu", "fixup"] and found["swiglu"].mean == pytest.approx(-0.1, abs=1e-3)
    assert answer.better(results) == ["swiglu"]


def test_seeds_are_paired_by_their_number(study, answer):
    results = made(study, {"vanilla_transformer": np.array([1.0, 2.0, 3.0]), "gelu": np.array([0.9, 1.9, 2.95])})
    entries = [e for e in results.entries if not (e.trial.row == "gelu" and e.trial.seed == 1)]
    fewer = dataclasses.replace(results, entries=tuple(entries))
    assert answer.differences(fewer)["gelu"].mean == pytest.approx(-0.075)


@pytest.mark.parametrize(("shift", "status"), [(-0.2, "held"), (0.2, "did not hold")])
def test_claims_follow_the_numbers(study, shift, status):
    rows = {"vanilla_transformer": 2.0} | dict.fromkeys(("geglu", "swiglu", "reglu", "liglu"), 2.0 + shift)
    results = made(study, rows | dict.fromkeys(("mixture_of_experts", "switch_transformer"), 2.0 + shift))
    assert study.verdicts["narang-glu-family-helps"](results).status == status
    assert study.verdicts["narang-sparse-experts"](results).status == status
    assert study.verdicts["narang-sharing-costs"](results).status == "not tested"


def test_counts_are_judged(study):
    counts = study.verdicts["narang-counts"](made(study, {"vanilla_transformer": 2.0}))
    assert counts.status == "held" and "50 rows equal the paper's cell" in counts.sentences


@pytest.mark.slow
def test_the_scatter_names_every_row(study, printed, tmp_path):
    results = made(study, {row: float(cells["final loss"]) for row, cells in list(printed.items())[:9]})
    found = [draw(results, tmp_path) for draw in study.figures]
    figure = next(one for one in found if one and one.path.name == "final_loss_order.png")
    assert figure.path.stat().st_size > 10_000 and "of 9 rows with the paper: final loss 1.00" in figure.alt
    assert all(draw(made(study, {"gelu": 1.0}), tmp_path) is None for draw in study.figures)


def test_speeds_come_from_the_interleaved_measurement(study, answer, printed, monkeypatch):
    """If such a run exists. The trials' own speeds were measured at different hours; here they say the opposite."""
    times = {row: 1e3 / float(cells["steps a second"]) for row, cells in printed.items()}
    spread = {row: {"median_ms": x, "low_ms": 0.99 * x, "high_ms": 1.01 * x} for row, x in times.items()}
    backwards = {row: 1 / float(cells["steps a second"]) for row, cells in printed.items()}
    slow = made(study, dict.fromkeys(printed, 2.0), backwards)
    assert answer.correlations(slow)["steps a second"].rho == pytest.approx(-1)
    monkeypatch.setattr(answer, "timed", lambda: spread)
    assert answer.correlations(slow)["steps a second"].rho == pytest.approx(1)
    assert answer.faster(slow, "rms_norm", "vanilla_transformer").clear  # 3.68 against 3.50 in the paper
    assert answer.faster(slow, "gelu", "vanilla_transformer").gain == pytest.approx(0.08)
    near = answer.faster(slow, "tied_encoder_decoder_input_embeddings", "vanilla_transformer")  # 3.55 against 3.50
    assert near.gain > 0 and not near.clear and "not clear" in near.text

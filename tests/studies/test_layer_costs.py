"""`vaswani2017/table1` and `lectures/complexity`: measurements at small sizes, and verdicts by hand."""

import dataclasses
import math

import pytest
from results_of import clear_cases, measured, results_of

from attention_research.studies import Row
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

NAMES = ("vaswani2017/table1", "lectures/complexity")


@pytest.mark.parametrize(
    ("row", "powers", "chain", "path"),
    [
        ("attention_core", (2, 1, None), [2, 2], [1, 1]),
        pytest.param("rnn", (1, 2, None), [5, 9], [5, 9], marks=pytest.mark.slow),
        ("convolution", (1, 2, 1), [1, 1], [4, 8]),
        pytest.param("restricted_core", (1, 1, 1), [2, 2], [4, 8], marks=pytest.mark.slow),
    ],
)
def test_a_layer_has_counts_chains_and_paths(row, powers, chain, path, studies):
    sizes = {"lengths": (256, 512), "widths": (64, 128), "reaches": (33, 65), "ways": (5, 9), "timed": (4, 8)}
    found = measured(studies["vaswani2017/table1"], row, **sizes, seconds=0.0)
    for name, want in zip(("length_power", "width_power", "reach_power"), powers, strict=True):
        assert found[name] is None if want is None else abs(found[name] - want) < 0.05
    assert (found["chains"], found["paths"]) == (chain, path)
    assert found["milliseconds_1"] > 0 and math.isfinite(found["time_power"])


@pytest.mark.slow
def test_a_layer_of_the_lectures_is_counted_and_timed(studies):
    sizes = {"lengths": (8, 16), "widths": (16, 32), "chained": (4, 8), "counted": (64, 128), "seconds": 0.0}
    found = measured(studies["lectures/complexity"], "attention_core", **sizes)
    # 2 n^2 d for scores and sums against 2, 8 and k = 3 times n d^2, without the softmax's scale and the gates.
    for other, times in (("rnn", 1), ("lstm", 4), ("convolution", 1.5)):
        assert all(
            abs(length - times * width) <= 3 for length, width in zip(found["crossovers"][other], (16, 32), strict=True)
        )
    assert [len(of_width) for of_width in found["times"]] == [2, 2] and min(found["bytes"]) > 0
    assert found["chains"] == [2, 2] and found["chains_backward"] == [4, 4]


@pytest.mark.slow
def test_a_block_is_counted_and_its_gradient_exact(studies):
    study = studies["lectures/complexity"]
    found = measured(study, "length_30", seconds=0.0, width=32, num_heads=4)
    n, d = 30, 32
    assert found["block_operations"] == 2 * (12 * n * d * d + 2 * n * n * d)
    assert found["scores"] == pytest.approx(2 * n * n * d / (12 * n * d * d + 2 * n * n * d))
    assert found["score_bytes"] == 4 * 4 * n * n and found["milliseconds"] > 0
    share = measured(study, "gpt3_175b", model_length=2048)
    assert share["scores"] == pytest.approx(2048 / (6 * 12288 + 2048))


def layers(**powers):
    """Numbers of the layers as predicted by the formulas, some of them replaced."""
    rows = {
        "attention_core": (2, 1, 0), "attention": (1.8, 1.5, 0), "rnn": (1, 2, 1), "lstm": (1, 2, 1),
        "convolution": (1, 2, 0),
    }  # fmt: skip
    found = {}
    for row, (length, width, chain) in rows.items():
        numbers = {"length_power": length, "width_power": width, "chain_power": chain, "chain_backward_power": chain}
        numbers |= {"reach_power": 1} if row == "convolution" else {}
        found[row] = {f"measure.{name}": [value] for name, value in {**numbers, **powers.get(row, {})}.items()}
    return found


def test_exponents_are_compared_with_the_formulas(studies):
    verdicts = studies["lectures/complexity"].verdicts
    for claim in ("complexity-table", "quadratic-in-length", "rnn-inherently-sequential"):
        assert verdicts[claim](results_of(layers())).status == HELD
    assert verdicts["complexity-table"](results_of(layers(lstm={"width_power": 1.9}))).status == FAILED
    assert verdicts["quadratic-in-length"](results_of(layers(lstm={"length_power": 1.2}))).status == FAILED
    assert verdicts["rnn-inherently-sequential"](results_of(layers(rnn={"chain_power": 0}))).status == FAILED


def test_the_share_of_scores_has_to_fall_with_every_size(studies):
    def judged(*shares):
        made = results_of({f"gpt_{n}": {"measure.scores": [share]} if share else {} for n, share in enumerate(shares)})
        rows = tuple(Row(row.id, row.name, settings={"width": n}) for n, row in enumerate(made.rows))
        found = dataclasses.replace(made, rows=rows)
        return studies["lectures/complexity"].verdicts["share-outside-attention"](found).status

    assert judged(0.3, 0.2, 0.1) == HELD and judged(0.3, 0.1, 0.2) == FAILED and judged(0.3) == UNTESTED
    assert judged(0.3, None, 0.1) == judged(0.3, 0.2, None) == UNTESTED


def test_every_crossover_is_a_case(studies):
    verdict = studies["lectures/complexity"].verdicts["attention-is-cheap"]

    made = results_of(
        {"attention_core": {"measure.crossovers": [{"rnn": [64, None], "lstm": [10, 500]}]}},
        settings={"widths": (64, 256)},
    )
    found = verdict(made)
    assert found.status == FAILED and clear_cases(found) == ["without projections against rnn, counted"]

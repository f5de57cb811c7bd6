"""`lectures/nonlinearity`: verdicts by hand, every row's config, equal parameter counts."""

import pytest
from results_of import clear_cases, results_of

from attention_research.config import build
from attention_research.layers.structure import abstract
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "lectures/nonlinearity"


def parameters(study, row):
    (row,) = study.rows_at("cpu", [row])
    config = configuration(study, "cpu", row).resolved
    constructor = build(config["model"], "model")
    _, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    return sum(x.size for x in shapes.values())


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_rows_of_a_depth_have_the_same_number_of_parameters(study, depth):
    with_it, without = (parameters(study, f"{side}_{depth}") for side in ("with", "without"))
    assert 0 < with_it - without < 0.002 * with_it


def test_only_rows_with_the_network_have_it(study):
    for scale in ("smoke", "cpu"):
        for row in study.rows_at(scale):
            if row.id.split("_")[0] in ("with", "without"):
                steps = configuration(study, scale, row).resolved["model"]["decoder"]["steps"]
                assert ("feed_forward" in str(steps)) == row.id.startswith("with_")


def test_states_have_to_become_more_alike_at_every_layer(study):
    def judged(alone, residual=()):
        rows = {"attention": alone, "attention_residual": residual}
        return study.verdicts["stacked-attention-only-averages"](
            results_of({row: {"measure.distances": list(curves)} for row, curves in rows.items()})
        )

    falls = [[0.9, 0.3, 0.001, 1e-8, 2e-8]]
    assert judged(falls, [[0.9, 0.3, 0.1, 0.01, 0.009]]).status == HELD
    slower = judged(falls, [[0.9, 0.8, 0.6, 0.5, 0.3]])
    assert slower.status == FAILED and clear_cases(slower) == ["attention"]
    assert judged(falls).status == UNTESTED
    assert judged([*falls, [0.9, 0.3, 0.4, 0.2, 0.001]]).status == FAILED
    assert judged([[0.9, 0.5, 0.3, 0.2, 0.1]]).status == FAILED


def test_the_network_has_to_win_at_every_depth(study):
    def judged(**gains):
        rows = {}
        for depth, gain in zip((1, 2, 4), gains["by_depth"], strict=True):
            for side, better in (("with", gain), ("without", 0)):
                spread = [0.99, 1.0, 1.01]
                rows[f"{side}_{depth}"] = {
                    "evaluate.perplexity": [(100 - better) * x for x in spread],
                    "measure.accuracy": [(0.2 + better / 100) * x for x in spread],
                }
        return study.verdicts["feed-forward-repairs"](results_of(rows)).status

    assert judged(by_depth=(10, 10, 10)) == HELD and judged(by_depth=(0, 0, -10)) == FAILED
    assert judged(by_depth=(0, 10, 10)) == FAILED

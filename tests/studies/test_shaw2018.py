"""The tables of Shaw et al. 2018: every claim has a verdict, every row a config; verdicts by hand."""

import pytest
from results_of import declared, results_of

from attention_research.studies.comparisons import OPEN, REVERSED
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD

NAMES = ("shaw2018/table1", "shaw2018/table2", "shaw2018/table3")


@pytest.mark.parametrize("name", NAMES)
def test_every_row_resolves_at_every_scale(name, studies):
    for scale in studies[name].scales:
        for row in studies[name].rows_at(scale):
            encoder = configuration(studies[name], scale, row).resolved["model"]["encoder"]
            attention, positions = encoder["self_attention"]["kind"], encoder["positions"]["kind"]
            absolute = row.id.endswith("_absolute") or (name == NAMES[0] and row.id.endswith("_both"))
            assert (positions == "sinusoidal") == absolute
            assert (attention == "standard") == (row.id.endswith("_absolute") or row.id == "none")


def test_the_papers_models_have_their_sizes(studies):
    rows = {row.id: configuration(studies[NAMES[0]], "paper", row).resolved for row in studies[NAMES[0]].rows}
    read = lambda id: (rows[id]["model"]["width"], rows[id]["model"]["encoder"]["feed_forward"]["hidden_width"],
                       rows[id]["model"]["encoder"]["self_attention"]["max_distance"],
                       rows[id]["training"]["steps"], rows[id]["evaluation"]["average"])  # fmt: skip
    assert read("base_relative") == (512, 1024, 16, 100_000, 1)
    assert read("big_relative") == (1024, 4096, 8, 300_000, 20)


def perplexities(**values):
    """Three seeds for each row. BLEU is higher for a lower perplexity."""
    near = lambda x: [0.995 * x, x, 1.005 * x]
    return results_of({row: {"evaluate.perplexity": near(x), "evaluate.bleu": near(100 / x)}
                       for row, x in values.items()})  # fmt: skip


def test_relative_positions_have_to_be_better_at_both_sizes(studies):
    judge = lambda **values: studies[NAMES[0]].verdicts["relative-positions-help"](perplexities(**values))
    base = {"base_absolute": 60, "base_relative": 50}
    held = judge(**base, big_absolute=60, big_relative=50, big_both=55)
    assert held.status == HELD and "big, both together" in held.because
    assert judge(**base, big_absolute=60, big_relative=60).status == FAILED
    assert judge(base_absolute=50, base_relative=60).status == FAILED


def test_clipping_is_flat_past_a_limit_and_positions_have_to_matter(studies):
    def judge(values):
        """The last value is also used for k = 64 and 256."""
        rows = {f"k_{k}": x for k, x in zip((0, 1, 2, 4, 16, 64, 256), (*values, *values[-1:] * 2), strict=True)}
        study = studies[NAMES[1]]
        return study.verdicts["relative-clipping-distance"](declared(study, perplexities(**rows)))

    held = judge((90, 60, 50, 50.1, 50))
    assert held.status == HELD and "perplexity 50 (k_2) against 50 (k_16), margin 3% over 3" in held.because
    steeper = judge((90, 80, 70, 60, 50))
    assert steeper.status == FAILED and [steeper.cases[f"k = 2 against {k}"].outcome for k in (4, 16)] == [REVERSED] * 2
    blind = judge((50, 50, 50, 50, 50))
    assert blind.status == FAILED and blind.cases["k = 2 against no positions"].outcome == OPEN


def test_keys_values_and_both_are_compared_with_neither(studies):
    judge = lambda **values: studies[NAMES[2]].verdicts["relative-keys-or-values"](perplexities(**values))
    assert judge(both=50, keys=50, values=55, none=90).status == HELD
    partly = judge(both=50, keys=50, values=90, none=90)
    assert partly.status == FAILED and "keys against values" in partly.because
    assert judge(both=90, keys=90, values=90, none=90).status == FAILED

"""`linformer2020`: its measurements, and verdicts by hand."""

import jax
import numpy as np
import pytest
from results_of import declared, measured, results_of

from attention_research.experiments.linformer2020.length_cost import allocated, block, make
from attention_research.experiments.linformer2020.map_spectra import described
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "linformer2020/table3"


@pytest.mark.slow
def test_materialised_and_fused_are_one_function_and_linformer_of_full_rank_another():
    x = jax.random.normal(jax.random.key(1), (1, 24, 12))
    sizes = {"width": 12, "num_heads": 3, "rank": 5, "key": jax.random.key(0)}
    outputs = {name: np.asarray(block(make(name, 24, **sizes), x)) for name in ("materialised", "fused", "linformer")}
    np.testing.assert_allclose(outputs["fused"], outputs["materialised"], atol=1e-5)
    assert np.abs(outputs["linformer"] - outputs["materialised"]).max() > 1e-3


@pytest.mark.slow
def test_materialised_attention_alone_allocates_the_square_of_the_length():
    sizes = {"width": 16, "num_heads": 2, "rank": 8, "key": jax.random.key(0)}
    of = lambda name, length: allocated(make(name, length, **sizes), jax.ShapeDtypeStruct((1, length, 16), "float32"))
    growth = {name: of(name, 2048) / of(name, 1024) for name in ("materialised", "linformer")}
    assert growth["materialised"] > 3.5 and growth["linformer"] < 2.5
    assert of("materialised", 2048) >= 2 * 2048**2 * 4


@pytest.mark.slow
def test_a_rank_is_measured_at_the_longer_texts(study):
    found = measured(study, "k_128", rank=16, lengths=(8, 32, 64), width=8, num_heads=2, seconds=0.0)
    assert found["lengths"] == [32, 64] and len(found["milliseconds"]["fused"]) == 2
    times = found["milliseconds"]
    assert found["time_64"] == times["materialised"][1] / times["linformer"][1]
    assert found["fused_memory_32"] == found["bytes"]["fused"][0] / found["bytes"]["linformer"][0]


def costs(materialised, fused, linformer):
    names = ("materialised", "fused", "linformer")
    by_name = dict(zip(names, (materialised, fused, linformer), strict=True))
    columns = {"lengths": [[512, 1024, 2048]], "milliseconds": [by_name], "bytes": [by_name]}
    return results_of({"k_128": {f"measure.{name}": values for name, values in columns.items()}})


def test_linformer_has_to_be_linear_and_cheaper(study):
    judge = lambda *costs_of: study.verdicts["linformer-speed-memory"](costs(*costs_of)).status
    square, linear = (1.0, 4.0, 16.0), (1.0, 2.0, 4.0)
    assert judge(square, (2.0, 4.0, 8.0), linear) == HELD
    assert judge(square, (1.0, 2.0, 3.0), linear) == FAILED
    assert judge(square, square, (0.1, 0.4, 1.6)) == FAILED and judge(linear, linear, square) == FAILED


def test_spectra_count_the_values_for_nine_tenths_of_the_sum():
    random = np.random.default_rng(0)
    one = np.ones((1, 1, 16, 16)) / 16
    flat = np.eye(16)[None, None]
    found = described([np.concatenate([flat, one])], [random.dirichlet(np.ones(16), (2, 1, 16))])
    np.testing.assert_allclose(found["ranks"], [0.9, 0.9 / 16], atol=0.01)
    assert found["first"] == found["ranks"][0] and found["last"] == found["ranks"][1]
    assert found["rank"] == pytest.approx(np.mean(found["ranks"])) and 0.2 < found["initial_rank"] < 0.9


def test_attention_is_low_rank_if_a_quarter_of_the_rank_suffices(studies):
    def judge(**ranks):
        rows = {row: {"measure.rank": [rank, rank + 0.01], "measure.initial_rank": [0.5, 0.5],
                      "measure.ranks": [[rank]] * 2} for row, rank in ranks.items()}  # fmt: skip
        return studies["linformer2020/figure1"].verdicts["linformer-low-rank"](results_of(rows))

    assert judge(minilm=0.2, masked=0.4).status == HELD and judge(minilm=0.4, masked=0.1).status == FAILED
    assert judge(masked=0.1).status == UNTESTED and "before training 0.50" in judge(minilm=0.4).because
    assert studies["linformer2020/figure1"].verdicts["linformer-low-rank"](results_of({})).status == UNTESTED


def test_perplexities_are_close_within_a_twentieth(studies):
    def judge(**rows):
        made = {row: {"evaluate.perplexity": [value, value + 0.1]} for row, value in rows.items()}
        study = studies["linformer2020/figure3"]
        return study.verdicts["linformer-quality"](declared(study, results_of(made)))

    assert judge(full=40.0, k_8=41.0, k_32=39.0).status == HELD
    part = judge(full=40.0, k_8=50.0, k_32=41.0)
    assert part.status == FAILED and part.cases["k_8"].outcome == REVERSED
    assert judge(full=40.0, k_8=50.0).status == FAILED and judge(k_8=50.0).status == UNTESTED


def test_rows_of_figure_3_differ_in_their_attention_alone(studies):
    kinds = {}
    for row in studies["linformer2020/figure3"].rows_at("cpu"):
        model = configuration(studies["linformer2020/figure3"], "cpu", row).resolved["model"]
        attention = model["encoder"].pop("self_attention")
        model.pop("self_attention")
        kinds[row.id] = (attention["kind"], attention.get("rank"), attention.get("sharing"), str(model))
    assert kinds["full"][:3] == ("standard", None, None) and kinds["k_16"][:3] == ("linformer", 16, "headwise")
    assert kinds["layerwise"][:3] == ("linformer", 32, "layerwise") and len({kind[3] for kind in kinds.values()}) == 1

"""`lectures/efficient_at_scale`, `linformer2020/table2` and `lectures/glue`: claims, configs, verdicts by hand."""

import csv
import math

import numpy as np
import pytest
from results_of import clear_cases, declared, results_of
from scipy.stats import linregress

from attention_research.experiments.lectures.efficient_at_scale.measures import Text
from attention_research.studies.comparisons import CLEAR, REVERSED
from attention_research.studies.trials import configuration, plan
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

NAMES = ("lectures/efficient_at_scale", "linformer2020/table2", "lectures/glue")


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_row_and_fine_tuning_resolves_at_every_scale(name, studies):
    study = studies[name]
    for scale in study.scales:
        for trial in plan(study, scale, study.rows_at(scale), 1, "0" * 12):
            tunings = [stage["settings"]["name"] for stage in trial.stages if stage["kind"] == "finetune"]
            assert len(tunings) == (3 if name.startswith("linformer") else 4)


def test_linformers_rows_are_those_of_the_paper(studies, root):
    study = studies["linformer2020/table2"]
    with open(root / "experiments/linformer2020/table2.csv", encoding="utf-8", newline="") as file:
        cells = {line["row"]: line for line in csv.DictReader(file)}
    assert set(cells) == {row.id for row in study.rows} - {"full_scratch"}
    for line in cells.values():
        parts = [float(line[name]) for name in ("SST-2", "IMDB", "QNLI", "QQP")]
        assert float(line["average"]) == pytest.approx(np.mean(parts), abs=0.011)
    model = lambda id: configuration(study, "cpu", next(row for row in study.rows if row.id == id)).resolved["model"]
    assert model("k_64_layer")["self_attention"]["rank"] == 64
    assert model("k_64_layer")["self_attention"]["sharing"] == "layerwise"
    assert model("full")["self_attention"]["kind"] == "standard"


def by_size(**gaps):
    """Losses of three seeds at four sizes: full attention, and variants with a gap at each size."""
    full = [[4.0 + 0.01 * seed, 3.5, 3.0, 2.8] for seed in range(3)]
    rows = {kind: {"measure.losses": full, "measure.parameters": [[1e3, 1e4, 1e5, 1e6]] * 3}
            for kind in ("full", "full_masked")}  # fmt: skip
    for kind, gap in gaps.items():
        ours = [[loss + more + 0.001 * seed for loss, more in zip(losses, gap, strict=True)]
                for seed, losses in enumerate(full)]  # fmt: skip
        rows[kind] = {"measure.losses": ours}
    return rows


def test_a_gap_has_to_grow_with_the_size(studies):
    judge = lambda **gaps: studies["lectures/efficient_at_scale"].verdicts["cheaper-worse-at-scale"](
        results_of(by_size(**gaps))
    )
    growing, flat = [0.0, 0.1, 0.2, 0.3], [0.2] * 4
    kinds = ("window", "linear", "performer", "linformer")
    assert judge(**dict.fromkeys(kinds, growing)).status == HELD
    partly = judge(**dict.fromkeys(kinds[:3], flat), linformer=growing)
    assert partly.status == FAILED and clear_cases(partly) == ["Linformer, masked"]
    assert judge(**dict.fromkeys(kinds, flat)).status == FAILED
    assert judge(**dict.fromkeys(kinds, growing[::-1])).status == FAILED
    assert judge(**dict.fromkeys(kinds, [0.0, 0.2, 0.24, 0.19])).status == FAILED  # only the smallest is behind


def test_the_interval_of_a_slope_has_its_nominal_coverage(studies):
    verdict = studies["lectures/efficient_at_scale"].verdicts["cheaper-worse-at-scale"]
    slope = verdict.__globals__["slope"]
    random, x = np.random.default_rng(0), np.repeat(np.arange(4.0), 3)
    found = [slope(x, 0.5 * x + random.standard_normal(12)) for _ in range(400)]
    assert 0.92 < np.mean([one.low < 0.5 < one.high for one in found]) < 0.98
    y = random.standard_normal(12)
    assert slope(x, y).value == pytest.approx(linregress(x, y).slope)


def by_context(**means):
    return {kind: {"measure.context_losses": [[value + 0.01 * seed for value in values] for seed in range(3)]}
            for kind, values in means.items()}  # fmt: skip


def test_longer_contexts_have_to_win_at_the_same_compute(studies):
    study = studies["lectures/efficient_at_scale"]

    def judge(**means):
        return study.verdicts["longer-contexts-unlock"](
            results_of(by_context(**means), settings={"contexts": (32, 128, 512)})
        ).status

    assert judge(full=[3.0, 2.9, 3.1], linear=[3.2, 2.8, 2.5]) == HELD
    assert judge(full=[3.0, 2.9, 2.5]) == HELD
    assert judge(full=[3.0, 2.9, 2.7], linear=[3.0, 2.9, 2.8]) == HELD  # full attention itself
    full = {"full": {"measure.context_losses": [[3.0, 2.9, 2.3], [3.0, 2.9, 2.7], [3.0, 2.9, 3.1]]}}
    made = results_of(full | by_context(linear=[3.0, 2.9, 2.8]), settings={"contexts": (32, 128, 512)})
    assert study.verdicts["longer-contexts-unlock"](made).status == FAILED  # full with the same context is not worse
    assert judge(full=[3.0, 2.5, 3.1], linear=[3.2, 3.0, 2.8]) == FAILED
    assert judge(full=[3.0, 2.9, 3.1], linear=[3.0, 2.8, 3.2]) == FAILED


def test_the_trigram_model_uses_two_tokens(studies, monkeypatch):
    row = next(row for row in studies["lectures/efficient_at_scale"].rows if row.id == "trigram")
    measured, random = row.stages[0].function, np.random.default_rng(0)
    cycle, noise = np.tile(np.arange(11), 401), random.integers(0, 11, (2, 4001))
    for train, test, expected, within in ((cycle, cycle, 0.0, 0.01), (*noise, math.log(11), 0.2)):
        text = Text(train, test, 12)
        monkeypatch.setitem(measured.__globals__, "open_text", lambda *_, text=text: text)
        for two_sided in (False, True):
            found = measured(text="", vocabulary_size=12, tokenizer="bpe", tested=307, two_sided=two_sided)["largest"]
            # A hidden token beside another one is predicted from fewer tokens.
            assert found == pytest.approx(expected, abs=within + 0.1 * two_sided)


def scores(keys, metric, spread=0.1, **rows):
    return {row: {f"{key}.{metric}": [value - spread, value, value + spread] for key in keys}
            for row, value in rows.items()}  # fmt: skip


def test_a_linformer_is_near_within_a_point(studies):
    study = studies["linformer2020/table2"]
    rows = [row.id for row in studies["linformer2020/table2"].rows if row.id.startswith("k_")]
    tasks = ("sentence", "review", "topic")
    found = lambda **values: results_of(scores(tasks, "accuracy", full=80.0, full_scratch=70.0, **values))
    judge = lambda **values: study.verdicts["linformer-downstream"](declared(study, found(**values)))
    assert judge(**dict.fromkeys(rows, 79.8)).status == HELD and len(rows) == 6
    partly = judge(**{**dict.fromkeys(rows, 75.0), "k_64": 80.5})
    assert partly.status == FAILED and clear_cases(partly) == ["Linformer k = n / 2"]
    assert {case.outcome for case in partly.cases.values()} == {CLEAR, REVERSED}
    assert judge(**dict.fromkeys(rows, 75.0)).status == FAILED


def test_the_leader_has_to_be_clearly_above_all_others(studies):
    verdict = studies["lectures/glue"].verdicts["glue-tops-transformer"]
    judge = lambda **rows: verdict(results_of(scores(("sentence", "review", "news", "quiz"), "score", **rows))).status
    below = {"transformer_scratch": 60.0, "lstm": 65.0, "lstm_scratch": 55.0}
    assert judge(transformer=70.0, **below) == HELD
    assert judge(transformer=63.0, **below) == FAILED
    assert judge(transformer=50.0, **below) == FAILED
    assert judge(transformer=65.05, **{**below, "lstm": 65.0}) == FAILED  # the difference is not clear
    assert judge(transformer=70.0) == UNTESTED

"""lectures/static_attention: configs of rows, verdicts on made-up numbers, pictures, a small run."""

import json

import pytest
from results_of import clear_cases, results_of

from attention_research.cli import main
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, FIGURE, HELD, UNTESTED

STUDY = "lectures/static_attention"


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu"])
def test_each_row_is_its_pooling_on_its_texts(study, scale):
    rows = study.rows_at(scale)
    configs = {row.id: configuration(study, scale, row).resolved for row in rows}
    assert len(rows) == {"smoke": 19, "cpu": 34, "gpu": 34}[scale]
    for id, config in configs.items():
        set_, kind = id.split("_", 1)
        name, pooling = config["data"]["name"], config["model"]["pooling"]["kind"]
        assert (name.split("/")[1] == set_) is (scale != "smoke" or set_ in ("frequent", "dissimilar"))
        if kind in ("mean", "idf", "tf_idf", "token_weight", "query", "qkv", "bidirectional_recurrent"):
            assert pooling == kind
        if set_ == "dissimilar":
            assert config["model"]["embedding"]["kind"] == ("learned" if kind.endswith("learned") else "random_frozen")
        if kind.split("_")[0] in ("lsa", "skip"):
            assert config["model"]["embedding"]["frozen"] is kind.endswith("frozen")
            assert f"{scale}-imdb-" in config["model"]["embedding"]["file"] and pooling == "mean"
        assert config["data"].get("train_examples") == (10_000 if set_ == "imdb" and scale != "smoke" else None)
    first = {name: config["training"] for name, config in configs.items() if not name.startswith("dissimilar")}
    assert all(settings == first["imdb_mean"] for settings in first.values())  # all rungs share one training


def accuracies(**rows):
    return {row: {"measure.accuracy": values} for row, values in rows.items()}


def verdict(study, id, rows):
    return study.verdicts[id](results_of(rows))


def test_static_weights_are_compared_with_the_mean(study):
    worse, better = [70.0, 71.0, 70.5], [80.0, 81.0, 80.5]
    sets = ("imdb", "bbc", "frequent", "rare")
    kinds = {f"{s}_{k}" for s in sets for k in ("idf", "tf_idf")} - {"frequent_tf_idf", "rare_tf_idf"}
    mean = {f"{set_}_mean": worse for set_ in sets}
    id = "tfidf-is-static-attention"
    assert verdict(study, id, accuracies(**mean, **dict.fromkeys(kinds, better))).status == HELD
    assert verdict(study, id, accuracies(**mean, **dict.fromkeys(kinds, worse))).status == FAILED
    one = dict.fromkeys(kinds, worse) | {"rare_idf": better}
    found = verdict(study, id, accuracies(**mean, **one))
    assert found.status == FAILED and clear_cases(found) == ["rare words tell, IDF"]
    assert verdict(study, id, {}).status == UNTESTED


def test_the_formula_is_judged_by_its_largest_difference(study):
    def rows(*differences):
        sets = zip(("imdb", "bbc"), differences, strict=True)
        return {f"{set_}_bag_of_words": {"measure.formula_difference": [value]} for set_, value in sets}

    assert verdict(study, "tfidf-formula", rows(1e-14, 1e-13)).status == HELD
    assert verdict(study, "tfidf-formula", rows(1e-14, 0.5)).status == FAILED
    assert verdict(study, "tfidf-formula", rows(None, None)).status == UNTESTED


@pytest.mark.parametrize(
    ("text", "occurrence", "zero", "status"),
    [(0.3, 0.2, 0.0, HELD), (-0.3, 0.2, 0.0, FAILED), (-0.3, -0.2, 0.0, FAILED), (0.3, 0.2, 0.1, FAILED)],
)
def test_rare_terms_are_judged_by_text_and_by_occurrence(study, text, occurrence, zero, status):
    row = {"measure.text_bits_correlation": [text], "measure.occurrence_bits_correlation": [occurrence],
           "measure.idf_of_all_texts": [zero]}  # fmt: skip
    found = verdict(study, "rarer-terms-more-informative", {"imdb_bag_of_words": row, "bbc_bag_of_words": row})
    assert found.status == status and f"{text:+.2f}" in found.because


def adaptive_rows(learned, follows):
    """Rows in which learned weights are more accurate and follow the words' information rather than IDF."""
    words = {f"w{i}": float(i) for i in range(9)}
    mixed = {f"w{i}": float((i * 4) % 9) for i in range(9)}
    rows = {}
    for set_ in ("imdb", "bbc", "frequent", "rare"):
        rows[f"{set_}_idf"] = {"measure.accuracy": [70.0, 70.01], "measure.weight_of": [words] * 2}
        for kind in ("token_weight", "query"):
            rows[f"{set_}_{kind}"] = {
                "measure.accuracy": [70.0 + learned, 70.01 + learned],
                "measure.bits_correlation": [0.1 + follows, 0.1101 + follows],
                "measure.idf_correlation": [0.1, 0.11],
                "measure.weight_of": [words if set_ == "imdb" else mixed] * 2,
            }
    return rows


def test_learned_weights_are_judged_by_accuracy_by_what_they_follow_and_across_tasks(study):
    id = "adaptive-weights-task-specific"
    found = verdict(study, id, adaptive_rows(learned=5.0, follows=0.5))
    assert found.status == HELD and "1 (IDF) against" in found.because
    found = verdict(study, id, adaptive_rows(learned=-5.0, follows=0.5))
    assert found.status == FAILED and not any("against IDF" in name for name in clear_cases(found))
    assert verdict(study, id, {}).status == UNTESTED


def shown():
    terms = {"word": ["good", "the", "dull"], "idf": [3.0, 0.1, 5.0], "weight": [4.0, 0.2, 3.0]}
    terms["bits"] = [0.02, 0.0, 0.01]
    text = {"words": ["the", "film", "is", "good"] * 9, "weights": [0.1, 0.3, 0.2, 9.0] * 9, "class": "positive",
            "predicted": "negative"}  # fmt: skip
    row = {"measure.terms": [terms], "measure.marked": [[text]], "measure.speaking": [{"positive": ["good"]}],
           "measure.idf_correlation": [0.3], "measure.accuracy": [80.0], "measure.accuracy_100": [60.0],
           "measure.accuracy_1000": [70.0]}  # fmt: skip
    moved = [["fun", 0.0, 0.0], ["a fun film", 1.0, 0.5], ["no fun", -1.0, 0.2], ["film", 0.3, 0.3]]
    return {"imdb_token_weight": row, "imdb_self_attention": {"measure.moved": [moved]}}


@pytest.mark.slow
def test_pictures_are_drawn_from_measurements_only(study, tmp_path, saved):
    results = results_of(shown())
    object.__setattr__(results.study, "scales", study.scales)
    figures = [function(results, tmp_path) for function in study.figures]
    assert [figure.path.name for figure in figures] == ["weights.png", "marked.png", "sizes.png", "moved.png"]
    # Points above and below the floor, and three words; 36 words and two lines about them; a curve and its band (no
    # other data); named places.
    assert saved == {"weights.png": [5, 2], "marked.png": [38], "sizes.png": [2, 0], "moved.png": [6]}
    assert study.verdicts["token-weights-figure"](results).status == FIGURE
    nothing = results_of({"imdb_mean": {"train.loss": [1.0]}})
    object.__setattr__(nothing.study, "scales", study.scales)
    assert [function(nothing, tmp_path) for function in study.figures] == [None] * 4
    assert study.verdicts["token-weights-figure"](nothing).status == UNTESTED


@pytest.mark.long
@pytest.mark.data
def test_the_smallest_run_measures_every_sort_of_row(tmp_path, in_process):
    rows = "frequent_mean,frequent_token_weight,imdb_self_attention,imdb_bag_of_words,imdb_lsa_frozen,dissimilar_qkv"
    assert main(["reproduce", STUDY, "--scale=smoke", f"--rows={rows}", f"--workdir={tmp_path}"]) == 0
    trials = [json.loads(path.read_text()) for path in tmp_path.glob("trials/*/result.json")]
    found = {trial["row"]: trial["stages"] for trial in trials}
    assert found.keys() == set(rows.split(","))
    for row, stages in found.items():
        assert 0 < stages["measure"]["accuracy"] <= 100, row
        if "evaluate" in stages:
            assert stages["measure"]["accuracy"] == stages["evaluate"]["accuracy"]
    assert found["imdb_bag_of_words"]["measure"]["formula_difference"] < 1e-9
    assert found["imdb_bag_of_words"]["measure"]["idf_of_all_texts"] == 0
    assert len(found["imdb_self_attention"]["measure"]["moved"]) >= 3
    assert found["frequent_token_weight"]["measure"]["terms"]["word"]

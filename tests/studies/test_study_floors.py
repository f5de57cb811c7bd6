"""Floors of a study: the trials that compute them, and their lines in a table."""

import dataclasses
from pathlib import Path

from results_of import results_of, trial

from attention_research.config import load
from attention_research.studies import Row, Scale, Study, floors, load_study
from attention_research.studies.columns import BLEU, LOSS, PERPLEXITY
from attention_research.studies.results import Entry
from attention_research.studies.tables import table

FLOOR_SETTINGS = {"stage": "evaluate", "rows": ["ours"], "name": ""}
MEASURED = {"trigram": {"perplexity": 31.0}, "memory": {"bleu": 26.9}, "stage_seconds": 2.0}


def with_floors(numbers, *floors, **study):
    """Made-up results with floors: (settings, measurements)."""
    made = results_of(numbers, **study)
    entries = []
    for number, (settings, measured) in enumerate(floors):
        planned = dataclasses.replace(trial("floors", number), stages=({"kind": "floors", "settings": settings},))
        entries.append(Entry(planned, {"stages": {"floors": measured}}))
    return dataclasses.replace(made, floors=tuple(entries))


def test_floors_are_lines_below_the_rows_with_the_columns_that_they_have():
    columns = (PERPLEXITY, BLEU, LOSS)
    numbers = {"ours": {"evaluate.perplexity": [12.9], "evaluate.bleu": [28.1], "train.loss": [2.0]}}
    found = with_floors(numbers, (FLOOR_SETTINGS, MEASURED), columns=columns)
    assert table(found)[1:] == [
        ["ours", "12.9", "28.1", "2.00", "1", ""],
        ["trigram (Kneser-Ney)", "31.0", "", "", "", "floor: a baseline without a trained model"],
        ["translation memory", "", "26.9", "", "", "floor: a baseline without a trained model"],
    ]
    without = dataclasses.replace(found, study=dataclasses.replace(found.study, columns=(LOSS,)))
    assert [line[0] for line in table(without)] == ["row", "ours"]  # without a column that floors have


def test_a_floor_is_that_of_a_rows_own_data():
    other = {"stage": "evaluate", "rows": ["theirs", "third"], "name": "verses"}
    numbers = {row: {"evaluate.perplexity": [12.9]} for row in ("ours", "theirs")}
    found = with_floors(
        numbers, (FLOOR_SETTINGS | {"name": "strings"}, MEASURED), (other, {"trigram": {"perplexity": 59.0}})
    )
    assert found.floor("trigram", "evaluate.perplexity", "ours") == 31.0
    assert found.floor("trigram", "evaluate.perplexity", "third") == 59.0
    assert found.floor("trigram", "evaluate.perplexity") == 45.0
    assert found.floor("trigram", "evaluate.bleu", "ours") is None is found.floor("bigram", "evaluate.perplexity")
    assert found.floor("trigram", "topics.perplexity", "ours") is None  # the metric of a fine-tuning
    names = [
        line[0]
        for line in table(dataclasses.replace(found, study=dataclasses.replace(found.study, columns=(PERPLEXITY,))))
    ]
    assert names[-2:] == ["trigram (Kneser-Ney) (strings)", "trigram (Kneser-Ney) (verses)"]


def test_one_trial_of_floors_for_all_rows_and_seeds_that_share_data(root):
    study = load_study("ablation/attention", root / "experiments")
    quick = floors.plan_with_floors(study, "quick", study.rows_at("quick"), 2, "sources")
    (below,) = (one for one in quick if one.row == floors.FLOORS)
    rows = [row.id for row in study.rows_at("quick")]
    assert below.stages[0]["settings"] == {"stage": "evaluate", "rows": rows, "name": ""}
    assert len(quick) == 2 * len(rows) + 1
    assert below.id not in {one.id for one in floors.plan_with_floors(study, "gpu", study.rows_at("gpu"), 1, "sources")}
    assert [one.row for one in floors.chosen(quick, {"unscaled"})] == ["unscaled", "unscaled", "floors"]
    assert floors.wanted(study, "quick", ["floors"]) == {"floors"} and len(floors.chosen(quick, {"floors"})) == 1
    assert floors.wanted(study, "quick", ["unscaled", "floors"]) == {"unscaled", "floors"}
    assert floors.wanted(study, "quick", None) == set(rows)
    assert not floors.planned(quick, "smoke")


def test_rows_with_data_of_their_own_have_floors_of_their_own():
    base = "configs/translation/transformer.py:smoke"
    changes = {"data.source_language": "en", "data.target_language": "fr"}
    rows = (Row("ours", "ours"), Row("wide", "wide", {"model.width": 64}), Row("turned", "turned", changes))
    study = Study(rows, {"cpu": Scale(base, seeds=1)}, name="by/hand", path=Path("hand.py"))
    planned = [one for one in floors.plan_with_floors(study, "cpu", list(rows), 1, "x") if one.row == floors.FLOORS]
    assert [one.stages[0]["settings"]["rows"] for one in planned] == [["ours", "wide"], ["turned"]]
    assert [one.name for one in planned] == ["floors, source language fr", "floors, source language en"]


def test_a_floors_id_depends_on_given_and_inherited_settings(root):
    """Defaults are not part of the id, so that a new setting does not change it."""
    said = lambda *changes: floors._said(load(root / "configs/translation/transformer.py:smoke", changes).resolved)
    assert said(("evaluation.split", "test"), ("evaluation.near", None)) == said()
    assert "evaluation.split" not in said() and "data.tokenizer.kind" not in said()
    for path, value in (("max_length", 32), ("vocabulary_size", 1999), ("evaluation.split", "validation")):
        assert said((path, value)) != said(), path
    assert said(("training.seed", 3), ("model.width", 64)) == said()


def test_three_settings_name_floors_that_two_do_not_tell_apart():
    settings = [("a", 1, 0.0), ("a", 2, 0.0), ("b", 1, 0.0), ("b", 1, 0.9), ("a", 1, 0.9)]
    contents = {
        str(number): {"data.aspect": aspect, "data.share": share, "data.mix": mix, "max_length": number // 3}
        for number, (aspect, share, mix) in enumerate(settings)
    }
    names = floors._named(contents)
    assert names["1"] == "aspect a, share 2, mix 0.0" and len(set(names.values())) == 5


def test_data_that_are_scored_in_training_and_in_a_fine_tuning_have_one_name():
    one, other = {"data.kind": "captions", "data.grid": 3}, {"data.kind": "digits", "data.grid": 2}
    found = floors._named({"evaluate": one, "finetuned": dict(one), "before": other})
    assert found == {"evaluate": "kind captions", "finetuned": "kind captions", "before": "kind digits"}
    assert floors._named({"evaluate": one, "finetuned": dict(one)}) == {"evaluate": "", "finetuned": ""}

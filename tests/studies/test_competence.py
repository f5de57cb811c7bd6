"""A claim is judged only if the models that it rests on have learned their task."""

import csv
import dataclasses
import json

import pytest
from results_of import results_of

from attention_research.cli import main
from attention_research.errors import ConfigError
from attention_research.studies import competence, verdict_text, verdicts
from attention_research.studies.claims_page import UNJUDGED, entries
from attention_research.studies.competence import Competence, Met
from attention_research.studies.results import Results
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import HELD, UNTESTED, Verdict, compare, judge

PERPLEXITY = "evaluate.perplexity"
TRIGRAM = Competence("standard", PERPLEXITY, "trigram")
NUMBERS = {
    "standard": {PERPLEXITY: [89.0, 91.0], "train.loss": [4.0, 4.1]},
    "good": {PERPLEXITY: [29.0, 30.0], "train.loss": [3.0, 3.1]},
    "bad": {PERPLEXITY: [200.0, 210.0], "train.loss": [6.0, 6.1]},
}


@pytest.fixture
def floors(monkeypatch):
    """Floors by slug, whatever the row's data."""
    known = {"trigram": 31.0}
    monkeypatch.setattr(Results, "floor", lambda self, slug, key, row: known.get(slug), raising=False)
    return known


@pytest.fixture
def made(tmp_path, floors):
    """Results of a study with one claim, `it`."""
    path = tmp_path / "claims.csv"

    def make(numbers=NUMBERS, *, kind="empirical", function=lambda _: Verdict(HELD, "it did"), **study):
        with open(path, "w", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [["id", "study", "claim", "measurement", "kind"], ["it", "by/hand", "It is.", "it", kind]]
            )
        return results_of(numbers, claims=str(path), verdicts={"it": function}, **study)

    return make


def only(results):
    (one,) = judge(results)
    return one


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Competence("good", PERPLEXITY, "trigram"), True),
        (Competence("good", PERPLEXITY, "trigram", margin=1.5), True),  # 29.5 against 31
        (Competence("good", PERPLEXITY, "trigram", margin=1.6), False),
        (Competence("standard", PERPLEXITY, "trigram"), False),
        (Competence("standard", PERPLEXITY, line=90.0), True),  # a line must be reached, a floor must be beaten
        (Competence("standard", PERPLEXITY, line=89.9), False),
        (Competence("standard", PERPLEXITY, line=90.0, higher=True), True),
        (Competence("standard", PERPLEXITY, line=90.1, higher=True), False),
        (Competence("standard", PERPLEXITY, "bad"), True),  # a row as the floor
        (Competence("good", PERPLEXITY, "good"), False),
        (Competence("standard", PERPLEXITY, "bigram"), False),  # not measured
        (Competence("nobody", PERPLEXITY, line=1000.0), False),
    ],
)
def test_a_bar_is_reached_by_the_mean_and_its_margin(made, bar, met):
    assert competence.reached(made(), bar).met is met


def test_nan_reaches_no_bar(made):
    results = made({"standard": {PERPLEXITY: [float("nan"), 2.0]}})
    assert not competence.reached(results, TRIGRAM).met


@pytest.mark.parametrize("higher", [False, True])
def test_a_diverged_run_reaches_no_bar(made, higher):
    """Its evaluation was not run. The other seed alone would reach the bar."""
    bar = Competence("standard", PERPLEXITY, line=30.0, higher=higher)
    results = made({"standard": {PERPLEXITY: [29.0 + 2 * higher, 0.0], "train.loss": [3.0, 9.0]}})
    assert competence.reached(made({"standard": {PERPLEXITY: [29.0 + 2 * higher]}}), bar).met
    lost = {**results.entries[1].result, "stages": {"train": {"loss": 9.0}}, "diverged": "the loss is nan"}
    entries = results.entries[0], dataclasses.replace(results.entries[1], result=lost)
    results = dataclasses.replace(results, entries=entries, study=dataclasses.replace(results.study, competence=(bar,)))
    assert not competence.reached(results, bar).met
    assert competence.refusal(results, "standard") == (
        "standard has not learned the task (perplexity diverged, threshold 30)"
    )
    assert competence.parse("\n".join(competence.lines([competence.reached(results, bar)])))[0].ours is not None


def test_the_best_entry_of_a_list_counts(made):
    results = made({"standard": {"measure.errors": [[0.5, 0.125], [0.75, None]], "measure.right": [[0.25, 0.5]] * 2}})
    assert competence.reached(results, Competence("standard", "measure.errors", line=0.4375)).ours == 0.4375
    assert competence.reached(results, Competence("standard", "measure.right", line=0.5, higher=True)).met


def test_stored_floors_replace_floors_that_were_not_computed(made, floors):
    numbers = {"standard": {"news.accuracy": [50.0, 52.0], "news.majority_accuracy": [22.0, 22.0]}}
    bar = Competence("standard", "news.accuracy", "majority", margin=15, higher=True)
    assert competence.reached(made(numbers), bar) == Met(True, "accuracy", 51.0, 22.0, 15, "standard", "majority")
    floors["majority"] = 40.0
    assert not competence.reached(made(numbers), bar).met


def test_a_claim_is_not_tested_where_its_models_have_not_learned(made):
    one = only(made(competence=(TRIGRAM,)))
    assert (one.status, one.computed) == (UNTESTED, HELD)
    assert one.verdict.because == "the models have not learned the task (perplexity 90, trigram 31)"
    assert one.to_json()["competence"] == {
        "met": False, "metric": "perplexity", "ours": 90.0, "floor": 31.0, "margin": 0.0
    }  # fmt: skip
    learned = only(made(competence=(Competence("good", PERPLEXITY, "trigram"),)))
    assert learned.status == HELD and learned.to_json()["competence"]["met"]
    unmeasured = only(made(competence=(Competence("good", PERPLEXITY, "bigram"),)))
    assert unmeasured.verdict.because.endswith("(perplexity 29.5, the floor `bigram` was not measured)")


def test_a_study_needs_competence_unless_it_trains_nothing(made):
    silent = only(made())
    assert silent.status == UNTESTED and silent.verdict.because == competence.UNSAID
    assert not silent.to_json()["competence"]["met"]
    assert only(made(competence=(Competence("good", PERPLEXITY, "trigram", claims=("other",)),))).status == UNTESTED
    for study in ({"competence": ()}, {"untrained": ("it",)}, {"kind": "exact"}, {"kind": "count"}):
        one = only(made(**study))
        assert one.status == HELD and one.to_json()["competence"] is None, study


def test_a_row_that_should_succeed_has_to_have_learned_and_one_that_should_fail_need_not(made):
    results = made(competence=(dataclasses.replace(TRIGRAM, row="good"),))
    assert compare(results, "good", "bad").clear
    refused = compare(results, "standard", "bad")
    assert refused.clear is None and refused.gain == pytest.approx(2.0)
    assert refused.text.endswith("standard has not learned the task (perplexity 90, trigram 31)")
    elsewhere = made(competence=(dataclasses.replace(TRIGRAM, row="good", rows=("go*",)),))
    assert compare(elsewhere, "standard", "bad").clear


def test_of_two_tasks_the_learned_one_is_judged_without_the_others_rows(made):
    seen = []

    def function(results):
        seen.append({row: results.values(row, "train.loss") for row in NUMBERS})
        return Verdict(HELD, "it did")

    tasks = (dataclasses.replace(TRIGRAM, rows=("standard", "bad")),
             Competence("good", PERPLEXITY, "trigram", rows=("good",)))  # fmt: skip
    one = only(made(competence=tasks, function=function))
    assert one.status == HELD and [bar.row for bar in one.competence] == ["good", "standard"]
    assert seen == [{"standard": (), "bad": (), "good": (3.0, 3.1)}]
    # If there are two bars for the same rows, both must be reached.
    both = (Competence("good", PERPLEXITY, "trigram"), Competence("good", PERPLEXITY, line=20.0))
    one = only(made(competence=both, function=function))
    assert one.status == UNTESTED and one.verdict.because.endswith("(perplexity 29.5, threshold 20)")


def test_a_table_notes_the_rows_that_have_not_learned(made):
    results = made(competence=(TRIGRAM,))
    assert "has not learned the task: perplexity must be better than 31 (trigram)" in results.notes("standard")
    assert not results.notes("good")
    assert not made(competence=(Competence("standard", PERPLEXITY, "bigram"),)).notes("standard")


def test_recorded_competence_is_read_back(made):
    found = (Met(True, "bleu fitting", 99.95, 90.0, 0.0, "search", "line"),
             Met(False, "perplexity", None, 31.0, 1e-05, "a_2.b", "trigram"),
             Met(False, "f1", float("inf"), None, 3.0, "c", "memory_else_copy"))  # fmt: skip
    for one in (found, None, (competence.NOT_SAID,)):
        assert competence.parse("> Claim.\n\n" + "\n".join(competence.lines(one)) + "\n\n- a case") == one
    text = verdict_text.markdown("by/hand", "cpu", judge(made(competence=(TRIGRAM,))))
    assert competence.parse(text) == (Met(False, "perplexity", 90.0, 31.0, 0.0, "standard", "trigram"),)


def test_a_bar_is_a_floor_or_a_line():
    for wrong in ({}, {"floor": "trigram", "line": 3.0}):
        with pytest.raises(ConfigError, match="either a floor or a line"):
            Competence("standard", PERPLEXITY, **wrong)
    with pytest.raises(ConfigError, match="stage.metric"):
        Competence("standard", "perplexity", "trigram")


def test_every_study_says_when_its_models_have_learned(studies):
    for name, study in studies.items():
        assert study.competence is not None, name
        ids = {row.id for row in study.rows}
        for bar in study.competence:
            assert bar.row in ids and set(bar.claims) <= set(study.verdicts), (name, bar)
            patterns = [dataclasses.replace(bar, row="", rows=(pattern,)) for pattern in bar.rows]
            assert all(any(one.covers(row) for row in ids) for one in patterns), (name, bar)
        assert set(study.untrained) <= set(study.verdicts)
        silent = [claim["id"] for claim in verdicts.claims_of(study) if competence.of_claim(study, claim) is None]
        assert not silent, name


def test_no_recorded_claim_has_a_verdict_without_competence(root):
    found = entries(root)
    open_ = (UNTESTED, *UNJUDGED)
    assert len(found) == 204
    for one in found:
        learned = one["competence"]
        assert one["verdict"] in open_ or learned is None or learned["met"], one["id"]
        assert learned is None or one["kind"] not in competence.UNTRAINED_KINDS, one["id"]
        assert one["seeds"] > 0 or one["verdict"] in open_, one["id"]
    assert any(one["competence"] and one["competence"]["met"] for one in found)


@pytest.mark.parametrize(
    "name, row",
    [("lectures/masking", "two_sided"), ("linformer2020/figure3", "full"), ("haviv2022/nopos", "relative_masked")],
)
def test_masked_models_have_to_beat_a_trigram_model_of_both_sides(name, row, studies):
    """The floor "trigram" of masked data is that of `tasks.floors.cloze`."""
    (reference,) = studies[name].rows_at("cpu", [row])
    data = configuration(studies[name], "cpu", reference).resolved["data"]
    assert data["objective"]["kind"] == "masked_tokens"
    assert {bar.floor for bar in studies[name].competence if bar.row == row} == {"trigram"}


def test_the_claims_are_listed(capsys, root, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["list", "claims", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    with open(root / "experiments/claims.csv", encoding="utf-8", newline="") as file:
        ids = [claim["id"] for claim in csv.DictReader(file) if claim["notes"] != "paper"]
    assert [one["id"] for one in found] == ids
    assert set(found[0]) == {"id", "claim", "kind", "study", "scale", "verdict", "seeds", "competence"}
    assert main(["list", "claims"]) == 0
    listed = capsys.readouterr().out.strip().split("\n\n")
    assert [one.partition(":")[0] for one in listed] == ids

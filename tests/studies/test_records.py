"""All trials of a table in one file, one per line: what is written is read again, and damaged lines are skipped."""

import json
import math
import random

import pytest

from attention_research.config import ConfigError
from attention_research.studies import records, rekeying, run_study
from attention_research.studies.bounds import CHARACTERS, POINTS, SAMPLES, bounded
from attention_research.studies.loading import load_study
from attention_research.studies.staleness import Current, state_of
from attention_research.studies.trials import plan
from attention_research.tasks.sentence_statistics import of_bleu

PICTURE = [[number % 7, number % 11] for number in range(300)]


def trial(row, seed, **measured):
    return {
        "id": f"{row}{seed}",
        "row": row,
        "seed": seed,
        "point": None,
        "given": {"model": {"kind": "standard"}, "training": {"seed": seed, "steps": 5}},
        "environment": {"git_revision": "0123abc", "versions": {"jax": "0.10.2"}, "date": f"2026-11-2{seed}"},
        "program": {"config": f"c{seed}", "train": "0447c2745a62", "topics.config": f"t{seed}"},
        "stages": {"measure": {"value": 0.1 + 0.2 + seed, "nothing": None, "picture": PICTURE, **measured}},
        "curves": {"train": [[1, math.nan], [2, 1.5]]},
    }


def add(folder, trials):
    records.write(folder, records.text(folder, trials))


def lines(folder):
    return (folder / records.FILE).read_text(encoding="utf-8").split("\n")


def test_what_is_written_is_read_and_a_changed_trial_changes_one_line(tmp_path):
    trials = [trial("second", 0), trial("first", 1), trial("first", 0, text="é\u2028\ud800", value=math.inf)]
    add(tmp_path, trials[:1])
    add(tmp_path, trials[1:])
    found = records.read(tmp_path)
    assert json.dumps(found, sort_keys=True) == json.dumps({one["id"]: one for one in trials}, sort_keys=True)
    assert list(found) == ["first0", "first1", "second0"] and records.read(tmp_path) is found
    before = lines(tmp_path)
    assert len(before) == 4 + 3 + 1  # environment, program, config and picture are stored once
    add(tmp_path, [trial("first", 1, value=2.0)])
    after = lines(tmp_path)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True] * 5 + [False] + [True] * 2
    assert records.read(tmp_path)["first1"]["stages"]["measure"]["value"] == 2.0


def test_a_damaged_line_is_skipped_and_the_others_are_read(tmp_path):
    add(tmp_path, [trial("row", seed) for seed in range(4)])
    *head, first, second, third, fourth, _ = lines(tmp_path)
    unknown = third.replace('"$shared":"', '"$shared":"0')
    damaged = [*head, "<<<<<<< mine", first, second[:-9], unknown, "[1]", fourth]
    (tmp_path / records.FILE).write_text("\n".join(damaged) + '\n{"id":"x","stages":3}\n', encoding="utf-8")
    assert set(records.read(tmp_path)) == {"row0", "row3"}
    add(tmp_path, [trial("row", 1)])
    assert set(records.read(tmp_path)) == {"row0", "row1", "row3"}
    (tmp_path / records.FILE).write_bytes(b"\xff\x00")
    assert records.read(tmp_path) == {} == records.read(tmp_path / "nowhere")


def test_one_file_a_trial_is_read_and_replaced(tmp_path):
    (tmp_path / "trials").mkdir()
    for one in (trial("row", 0), trial("row", 1)):
        (tmp_path / "trials" / f"{one['id']}.json").write_text(json.dumps(one))
    (tmp_path / "trials/damaged.json").write_text("{")
    assert set(records.read(tmp_path)) == {"row0", "row1"}
    add(tmp_path, [trial("row", 2)])
    assert set(records.read(tmp_path)) == {"row0", "row1", "row2"} and not (tmp_path / "trials").exists()


def test_shared_sentence_statistics_are_stored_once(tmp_path):
    """The part that belongs to the test set is shared by all of its trials. It is read in packed form."""
    rng = random.Random(0)
    texts = [[" ".join(rng.choices("abc", k=rng.randint(1, 9))) for _ in range(211)] for _ in range(3)]
    packed = [of_bleu(one, texts[2], texts[2]) for one in texts[:2]]
    trials = [bounded(trial("row", seed, sentence_statistics=one)) for seed, one in enumerate(packed)]
    add(tmp_path, trials)
    assert [found["stages"]["measure"]["sentence_statistics"] for found in records.read(tmp_path).values()] == packed
    text = (tmp_path / records.FILE).read_text(encoding="utf-8")
    assert packed[0]["fixed"] == packed[1]["fixed"] and text.count(packed[0]["fixed"]) == 1
    assert [text.count(one["own"]) for one in packed] == [1, 1]


def test_bounding_curves_samples_and_lists_is_idempotent():
    samples = [{"source": "word " * 100, "reference": ["a", "b" * 999], "score": 1 / 3}] * 20
    curve = [[step, step / 7] for step in range(1, 402)]
    found = trial("row", 0, samples=samples, weights={"w": [1 / 3, 1, True, None]}, loss=1 / 3)
    result = bounded({**found, "curves": {"train": curve, "validation": curve[:3], "test": []}})
    kept = result["stages"]["measure"]
    assert kept["loss"] == 1 / 3 and kept["weights"] == {"w": [0.333333, 1, True, None]}
    assert len(kept["samples"]) == SAMPLES and len(kept["samples"][0]["source"]) == CHARACTERS
    assert kept["samples"][0]["reference"][1] == "b" * (CHARACTERS - 1) + "…"
    assert result["curves"]["validation"] == [[1, 0.142857], [2, 0.285714], [3, 0.428571]]
    for count in (199, 200, 201, 398, 399, 400, 401):
        thin = bounded({**found, "curves": {"train": curve[:count]}})["curves"]["train"]
        assert POINTS / 2 <= len(thin) <= POINTS and thin[0][0] == 1 and thin[-1][0] == count
    assert bounded(result) == result


STUDY = """'''A table by hand.'''
from attention_research.studies import Row, Scale, Study, measure
FROM

STUDY = Study(
    rows=(Row("first", "first"), Row("second", "second"), Row("same", "same")),
    scales={"cpu": Scale(seeds=1, points=(2, 3), settings=SETTINGS)},
    stages=(measure(cost),),
    axis="length",
)
"""
FUNCTION = "def cost(*, length, seed, **_):\n    return {'value': length}\n"


@pytest.mark.slow
def test_records_follow_changed_locations_and_ids(experiments, tmp_path):
    file, record = experiments / "paper" / "table.py", experiments / "paper" / "results" / "table" / "cpu"
    file.parent.mkdir(parents=True)
    file.write_text(STUDY.replace("FROM", FUNCTION).replace("SETTINGS", "{}"))
    run_study("paper/table", scale="cpu", workdir=tmp_path / "runs", record=True, allow_dirty=True)
    recorded = dict(records.read(record))
    assert len(recorded) == 2  # the rows have equal settings, so they share trials
    (stale, current) = recorded.values()
    stale = {**stale, "program": {**stale["program"], "measure.cost": "another", "sources": "another"}}
    records.write(record, records.text_of([stale, current]))
    before = rekeying.write()

    (file.parent / "costs.py").write_text("import math\n" + FUNCTION)
    moved = STUDY.replace("FROM", "from .costs import cost").replace("SETTINGS", "{'new': 1}")
    file.write_text(moved.replace('Row("second", "second"', 'Row("second", "second", settings={"own": 2}'))
    after = rekeying.write()
    assert dict(rekeying.apply(before, after)) == {"renamed": 2}
    now = records.read(record)
    assert set(now) == {one["id"] for one in after.values()} and set(now).isdisjoint(recorded) and len(now) == 4
    assert [one["stages"] for one in now.values()].count(current["stages"]) == 2
    study = load_study("paper/table", experiments)
    planned = {one.id: one for one in plan(study, "cpu", list(study.rows), None, "")}
    states = [(one["point"], state_of(planned[one["id"]], one)) for one in now.values()]
    assert sorted(point for point, state in states if state == Current()) == [current["point"]] * 2
    assert sorted(point for point, state in states if state != Current()) == [stale["point"]] * 2
    assert dict(rekeying.apply(after, after)) == {"kept": 4}
    with pytest.raises(ConfigError, match="2 planned trials are gone, first 'paper/table cpu second 0 2'"):
        rekeying.apply(after, {name: one for name, one in after.items() if " second " not in name})

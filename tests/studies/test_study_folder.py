"""A study's folder belongs to one study at one scale, or to one sweep, and to no run."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from attention_research.config import ConfigError, load
from attention_research.studies import load_study, run_study
from attention_research.studies.search import search
from attention_research.studies.study_folder import check, claim
from attention_research.studies.sweep import sweep_study
from attention_research.training.claiming import check as check_run

CONFIG = "configs/translation/transformer.py:smoke"


def refused(line, call, *words, **options):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        call(*words, **options)


def swept(*over, overrides=()):
    return sweep_study(CONFIG, over or ("model.num_heads=1,4",), overrides=overrides)


def test_a_study_is_not_written_into_the_folder_of_a_run(fake, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    line = f"--workdir={run}: the folder of a run (it has config.json); give another folder"
    refused(line, run_study, "fake/table", scale="quick", workdir=run)
    refused(line, run_study, swept(), scale="sweep", workdir=run)
    assert [path.name for path in run.iterdir()] == ["config.json"]


def test_a_search_is_not_written_into_the_folder_of_a_run(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "config.json").write_text("{}")
    line = f"--workdir={tmp_path}: the folder of a run (it has config.json); give another folder"
    refused(line, search, CONFIG, ["training.learning_rate=0.1..1.0"], "random", trials=1, workdir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_run_is_not_written_into_the_folder_of_a_study(tmp_path):
    (tmp_path / "trials").mkdir()
    line = f"--workdir={tmp_path}: the folder of a study (it has trials/); give another folder"
    refused(line, check_run, tmp_path, load(CONFIG))


def test_a_study_is_not_written_into_the_folder_of_another(fake):
    folder = Path("mine")
    run_study("fake/table", scale="quick", workdir=folder, render=True)
    run_study("fake/table", scale="quick", workdir=folder, render=True, rows=("one",), seeds=1)
    before = (folder / "summary.json").read_text()
    holds = "--workdir=mine: the folder of fake/table at quick; give another folder"
    refused(holds, run_study, "fake/table", scale="cpu", workdir=folder, render=True)
    refused(holds, run_study, swept(), scale="sweep", workdir=folder)
    other = dataclasses.replace(load_study("fake/table"), name="fake/other")
    refused(holds, run_study, other, scale="quick", workdir=folder, render=True)
    assert (folder / "summary.json").read_text() == before


def test_a_study_of_ones_own_is_known_by_its_file(fake, tmp_path):
    """Its name depends on the folder in which the command runs."""
    study = dataclasses.replace(load_study("fake/table"), own=True)
    claim(tmp_path, study, "quick")
    check(tmp_path, dataclasses.replace(study, name="elsewhere/table"), "quick")
    moved = dataclasses.replace(study, path=tmp_path / "table.py")
    check(tmp_path, moved, "quick")
    line = f"--workdir={tmp_path}: the folder of fake/table at quick; give another folder"
    refused(line, check, tmp_path, dataclasses.replace(moved, name="elsewhere/table"), "quick")


def test_a_sweep_may_grow_in_its_folder(tmp_path):
    claim(tmp_path, swept(), "sweep")
    rows = [{"id": row.id} for row in swept().rows]
    (tmp_path / "summary.json").write_text(
        json.dumps(json.loads((tmp_path / "summary.json").read_text()) | {"rows": rows})
    )
    for over in ("model.num_heads=1,4", "model.num_heads=1,2,4"):
        check(tmp_path, swept(over), "sweep")
    where, folder = f"--workdir={tmp_path}: ", "; give another folder"
    lacks = f"{where}the sweep there has the row num_heads=4, which this one lacks{folder}"
    refused(lacks, check, tmp_path, swept("model.num_heads=1,2"), "sweep")
    holds = f"{where}the folder of Sweep of {CONFIG} over model.num_heads{folder}"
    refused(holds, check, tmp_path, swept("model.dropout_rate=0.1"), "sweep")
    refused(holds, check, tmp_path, swept(overrides=[("training.steps", "6")]), "sweep")


def test_a_folder_of_an_earlier_version_or_without_a_summary_is_continued(tmp_path):
    check(tmp_path, swept(), "sweep")
    (tmp_path / "trials").mkdir()
    (tmp_path / "summary.json").write_text('{"study": "sweep", "scale": "sweep", "rows": [{"id": "num_heads=1"}]}')
    check(tmp_path, swept(), "sweep")
    (tmp_path / "summary.json").write_text("damaged")
    check(tmp_path, swept(), "sweep")

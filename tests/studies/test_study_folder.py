"""A study's folder is that of no run. Studies may share one, and say so."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from results_of import results_of

from attention_research.config import ConfigError, load
from attention_research.studies import load_study, run_study
from attention_research.studies.search import search
from attention_research.studies.study_folder import identity, replaced
from attention_research.studies.summary import publish
from attention_research.studies.sweep import sweep_study
from attention_research.training.claiming import check as check_run

CONFIG = "configs/translation/transformer.py:smoke"


def refused(line, call, *words, **options):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        call(*words, **options)


def swept(*over, overrides=()):
    return sweep_study(CONFIG, over or ("model.num_heads=1,4",), overrides=overrides)


def said(folder, study, scale):
    """Whose table the study would replace."""
    line = replaced(folder, study, scale)
    return line and re.fullmatch(r".*: replaces the table, figures and page of (.*); its trials stay", line)[1]


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


def test_studies_may_share_a_folder_and_say_whose_table_they_replace(fake, capsys):
    for scale, more in (("quick", False), ("quick", False), ("cpu", True)):
        run_study("fake/table", scale=scale, workdir=Path("mine"), render=True)
        line = "mine: replaces the table, figures and page of fake/table at quick; its trials stay\n"
        assert capsys.readouterr().err.endswith(line) == more
    study = load_study("fake/table")
    assert said(Path("mine"), dataclasses.replace(study, name="fake/other"), "cpu") == "fake/table at cpu"
    assert said(Path("mine"), swept(), "sweep") == "fake/table at cpu"


def test_a_study_of_ones_own_is_known_by_its_file(fake, tmp_path):
    """Its name depends on the folder in which the command runs."""
    study = dataclasses.replace(load_study("fake/table"), own=True)
    (tmp_path / "summary.json").write_text(json.dumps(identity(study, "quick")))
    assert said(tmp_path, dataclasses.replace(study, name="elsewhere/table"), "quick") is None
    moved = dataclasses.replace(study, path=tmp_path / "table.py")
    assert said(tmp_path, moved, "quick") is None
    assert said(tmp_path, dataclasses.replace(moved, name="elsewhere/table"), "quick") == "fake/table at quick"


def test_a_sweep_grows_in_its_folder(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(identity(swept(), "sweep")))
    assert said(tmp_path, swept("model.num_heads=1,2,4"), "sweep") is None
    for other in (swept("model.dropout_rate=0.1"), swept(overrides=[("training.steps", "6")])):
        assert said(tmp_path, other, "sweep") == f"Sweep of {CONFIG} over model.num_heads"


def test_a_summary_of_an_earlier_version_or_a_damaged_one_is_replaced(tmp_path):
    for text in ('{"study": "sweep", "scale": "sweep"}', "damaged", "[]", "{}"):
        (tmp_path / "summary.json").write_text(text)
        assert said(tmp_path, swept(), "sweep") is None


def test_no_figure_or_verdict_of_another_study_stays(tmp_path):
    for key in ("evaluate.f1", "evaluate.bleu"):
        summary = publish(results_of({"a": {key: [80.0, 90.0]}, "b": {key: [50.0, 52.0]}}), tmp_path)
        drawn = [Path(path).name for path in summary["figures"]]
        assert drawn == [path.name for path in (tmp_path / "figures").iterdir()] == [f"{key.split('.')[1]}.png"]
        assert not (tmp_path / "verdicts.md").exists()
        (tmp_path / "verdicts.md").write_text("# verdicts of this study")

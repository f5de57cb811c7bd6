"""What is recorded under experiments/ is complete enough to be drawn again, and its page stands in a browser."""

import json
from pathlib import Path

import pytest

from attention_research.studies.run import run_study

RECORDED = sorted(path.parent for path in Path(__file__).parents[2].glob("experiments/*/results/*/*/table.md"))
IDS = ["-".join((folder.parts[-4], *folder.parts[-2:])) for folder in RECORDED]


def study_of(folder: Path) -> tuple[str, str]:
    """experiments/<paper>/results/<table>/<scale> -> (paper/table, scale)."""
    *_, paper, _, table, scale = folder.parts
    return f"{paper}/{table}", scale


def headings(verdicts: Path) -> list[str]:
    """Claims and statuses; the numbers below them may differ in a last digit from machine to machine."""
    return [line for line in verdicts.read_text().splitlines() if line.startswith("## ")]


@pytest.mark.parametrize("folder", RECORDED, ids=IDS)
def test_a_record_renders_without_training(folder, tmp_path, monkeypatch, root):
    monkeypatch.chdir(root)
    study, scale = study_of(folder)
    summary = run_study(study, scale=scale, render=True, workdir=tmp_path)
    kept = [json.loads(path.read_text()) for path in (folder / "trials").glob("*.json")]
    assert kept and summary["failed"] == []
    for trial in kept:
        assert (
            len(trial["fingerprint"]) >= 12 and trial["environment"]["date"] and trial["environment"]["versions"]["jax"]
        )
        assert trial["environment"]["git_revision"] not in ("", "unknown")
    assert (tmp_path / "table.md").read_text().count("\n| ") >= 4
    if summary["verdicts"]:
        assert headings(folder / "verdicts.md") == headings(tmp_path / "verdicts.md")


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED[:1], ids=IDS[:1])
def test_the_page_stands_in_a_browser(folder, tmp_path, monkeypatch, root, browse):
    """No error, no request but for the file itself and inline data, a table with headers, a text for every picture."""
    monkeypatch.chdir(root)
    study, scale = study_of(folder)
    page = browse(run_study(study, scale=scale, render=True, workdir=tmp_path)["report"])
    assert page.locator("table thead th[scope=col]").count() > 3 and page.locator("tbody th[scope=row]").count() > 3
    assert page.locator("img").count() >= 1
    assert all(image.get_attribute("alt") for image in page.locator("img").all())

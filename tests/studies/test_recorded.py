"""The records under experiments/ are complete enough to draw their pages again, and the pages open in a browser."""

import re
from pathlib import Path

import pytest

from attention_research.analysis import picture_file
from attention_research.studies import footnotes, records, results
from attention_research.studies.bounds import bounded
from attention_research.studies.figures import Figure, worth_recording
from attention_research.studies.run import run_study
from attention_research.studies.staleness import OLD
from attention_research.studies.verdict_text import below_a_table
from tests.tiers import fast_are

RECORDED = sorted(path.parent for path in Path(__file__).parents[2].glob("experiments/*/results/*/*/table.md"))
IDS = ["-".join((folder.parts[-4], *folder.parts[-2:])) for folder in RECORDED]

#: The starts of notes about later changes, which a record cannot contain.
AGED = ("stale", "not comparable")


def study_of(folder: Path) -> tuple[str, str]:
    """experiments/<paper>/results/<table>/<scale> -> (paper/table, scale)."""
    *_, paper, _, table, scale = folder.parts
    return f"{paper}/{table}", scale


def content(page: str) -> list[list[str]]:
    """The cells of a page's table without the notes `AGED`, and its other lines without rounding errors such as 5e-08.

    A verdict computes such errors again, and they differ between machines.
    """
    end = footnotes.end_of_table(page)
    table = footnotes.parse(page[:end])
    if table[0][-1] == footnotes.NOTES:
        kept = lambda notes: "; ".join(note for note in notes.split("; ") if not note.startswith(AGED))
        table = [[*row[:-1], kept(row[-1])] for row in table]
    if {row[-1] for row in table} == {footnotes.NOTES, ""}:
        table = [row[:-1] for row in table]
    below = [re.sub(" +", " ", re.sub(r"[\d.]+e-\d+", "0", line)) for line in page[end:].splitlines()]
    return [*table, [line for line in below if not line.startswith("| ---")]]


RECORDS = dict(zip(IDS, RECORDED, strict=True))
#: The tables with the smallest records.
FAST = sorted(RECORDS, key=lambda name: (RECORDS[name] / records.FILE).stat().st_size)[:6]


@pytest.mark.parametrize("folder", fast_are(FAST, RECORDS))
def test_a_record_renders_the_same_without_training(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "states_of", lambda pairs, report: [OLD for _ in pairs])  # no program is lowered
    monkeypatch.setattr(picture_file, "save", lambda figure, path, **_: path.write_bytes(b""))
    study, scale = study_of(folder)
    summary = run_study(study, scale=scale, render=True, workdir=tmp_path)
    trials = records.read(folder)
    lines = (folder / records.FILE).read_text(encoding="utf-8").splitlines()
    assert trials and len(trials) == sum(not line.startswith('{"$shared"') for line in lines) and not summary["failed"]
    for trial in trials.values():
        assert len(trial["fingerprint"]) >= 12 and bounded(trial) == trial
        assert trial["environment"]["date"] and trial["environment"]["versions"]["jax"]
        assert trial["environment"]["git_revision"] not in ("", "unknown")
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    if any(one["shown"] for one in summary["verdicts"]):
        page += "\n" + below_a_table((tmp_path / "verdicts.md").read_text(encoding="utf-8"))
    assert content(page) == content((folder / "table.md").read_text(encoding="utf-8"))
    if not any("program" in trial for trial in trials.values()):  # trials that are not comparable change no note
        table = lambda text: text[: footnotes.end_of_table(text)]
        assert table((tmp_path / "table.md").read_text()) == table((folder / "table.md").read_text())
    pictures = [Figure(Path(path), "", "") for path in summary["figures"]]
    assert {one.path.name for one in worth_recording(pictures)} == {path.name for path in folder.glob("figures/*")}


@pytest.mark.long
@pytest.mark.parametrize("folder", RECORDED[:1], ids=IDS[:1])
def test_the_page_stands_in_a_browser(folder, tmp_path, browse):
    """Fails on errors and on requests other than the file and inline data. Tables have headers, pictures have texts."""
    study, scale = study_of(folder)
    page = browse(run_study(study, scale=scale, render=True, workdir=tmp_path)["report"])
    assert page.locator("table thead th[scope=col]").count() > 3 and page.locator("tbody th[scope=row]").count() > 3
    assert page.locator("img").count() >= 1
    assert all(image.get_attribute("alt") for image in page.locator("img").all())

"""Every figure that a record can draw is legible: texts do not collide, a colour has one meaning, and no value is
impossible. The line below it names the study, the scale and the number of seeds."""

import re
from pathlib import Path

import pytest
from figure_faults import collisions, impossible, looks, two_meanings, without_name

from attention_research.analysis import picture_file
from attention_research.studies import figures, records, results
from attention_research.studies.loading import study_of_record
from attention_research.studies.rewriting import found_in
from attention_research.studies.staleness import OLD
from tests.tiers import slow_are

RECORDED = records.recorded(Path(__file__).parents[2] / "experiments")
IDS = ["-".join((folder.parts[-4], *folder.parts[-2:])) for folder in RECORDED]


@pytest.fixture
def drawn(monkeypatch):
    """Name of a picture -> the figure as it would be written, with the line below it."""
    kept = {}

    def noted(figure, path, *, below, **options):
        picture_file.write_below(figure, below)
        kept[path.name] = figure

    monkeypatch.setattr(picture_file, "save", noted)
    return kept


def faults(figure, study, scale, monkeypatch):
    found = collisions(figure, monkeypatch) + two_meanings(figure) + impossible(figure) + without_name(figure)
    below = [text.get_text().replace("\n", " ") for text in figure.texts]
    start = re.compile(rf"{re.escape(study)}, {re.escape(scale)} scale, [^;]+; .+")
    return found + ([] if any(start.match(text) for text in below) else [f"no line that names the study in {below}"])


#: Slow: a record of each paper. The others are long.
SLOW = {name.split("-")[0]: name for name in IDS}.values()


@pytest.mark.parametrize("folder", slow_are(SLOW, dict(zip(IDS, RECORDED, strict=True))))
def test_recorded_figures_are_legible(folder, drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "states_of", lambda pairs, report: [OLD for _ in pairs])  # nothing is lowered
    study, scale = study_of_record(folder)
    figures.draw(found_in(folder), tmp_path)
    assert {
        name: found for name, figure in drawn.items() if (found := faults(figure, study.name, scale, monkeypatch))
    } == {}
    colours = {}
    for figure in drawn.values():
        for label, look in looks(figure):
            colours.setdefault(label, set()).add(look[0])
    assert {label for label, known in colours.items() if len(known) > 1} == set()

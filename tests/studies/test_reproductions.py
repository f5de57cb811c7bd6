"""Printed cells beside ours: the numbers of cells, the interval by simulation, and the cells of a hand-made study."""

import dataclasses

import numpy as np
import pytest

from attention_research.studies import reproductions
from attention_research.studies.columns import Column, fixed
from attention_research.studies.reproductions import INSIDE, OUTSIDE, UNRECORDED, UNRUN, Reproduced, predicted
from attention_research.studies.results import Results
from attention_research.studies.study import Row, Scale, Study


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interval_holds_one_more_run_in_95_percent(seeds):
    rng = np.random.default_rng(0)
    runs = rng.normal(3.0, 0.5, (3000, seeds + 1))
    held = [low <= one <= high for *ours, one in runs for low, high in [predicted(ours)]]
    assert abs(np.mean(held) - 0.95) < 0.012  # three standard errors


@pytest.mark.parametrize(
    ("printed", "ours", "outcome"),
    [
        ("40.0", (39.0, 40.0, 41.0), INSIDE),
        ("44.9", (39.0, 40.0, 41.0), INSIDE),  # the interval ends at 44.97
        ("45.1", (39.0, 40.0, 41.0), OUTSIDE),
        ("39.6", (39.64,), INSIDE),  # as printed with one digit
        ("39.6", (39.66,), OUTSIDE),
        ("39.60", (39.64,), OUTSIDE),
        ("5.3e-5", (5.34e-5, 5.34e-5), INSIDE),
        ("5.3e-5", (5.4e-5, 5.4e-5), OUTSIDE),
        ("100", (float("inf"), 1.0), OUTSIDE),
    ],
)
def test_a_printed_number_is_inside_or_outside(printed, ours, outcome):
    assert Reproduced("row", "what", printed, ours).outcome == outcome


def test_the_cells_of_a_study(tmp_path):
    """A row may be run, only printed, or not be printed in the paper (nothing in `differs`)."""
    lines = [
        "row,score,other,source,differs",
        "a,1.5,7,page 3,another text",
        "b,2.5,,page 3,too large",
        "peer,9,,here,",
    ]
    (tmp_path / "published.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    study = Study(
        (Row("a", "A"), Row("b", "B", scales=()), Row("peer", "Peer", scales=()), Row("c", "C")),
        {"paper": Scale(seeds=1)}, columns=(Column("evaluate.score", "score", fixed(1)),), published="published.csv",
        compared={"evaluate.score": "score"}, path=tmp_path / "study.py",
    )  # fmt: skip
    found = reproductions.cells(Results(study, "paper", study.rows, ()))
    assert [(cell.row, cell.printed, cell.outcome, cell.differs) for cell in found] == [
        ("A", "1.5", UNRECORDED, "another text"), ("B", "2.5", UNRUN, "too large"),
    ]  # fmt: skip

    class Recorded(Results):
        def values(self, row, key, point=None):
            return {"a": (1.4, 1.6)}.get(row, ())

    recorded = Recorded(**{field.name: getattr(Results(study, "paper", study.rows, ()), field.name)
                           for field in dataclasses.fields(Results)})  # fmt: skip
    ours, other = reproductions.cells(recorded)
    assert (ours.text, ours.outcome, ours.ratio) == ("1.5", INSIDE, 1.0)
    assert (other.text, other.outcome, other.ratio) == ("", UNRUN, None)
    assert Reproduced("row", "what", "0", (1.0,)).ratio is None


def test_a_cell_without_a_number_is_an_error():
    with pytest.raises(ValueError, match="expected a number, got 'n/a'"):
        reproductions.number("n/a")

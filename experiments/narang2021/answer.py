"""Which changes of Narang et al. 2021 help here, and whether our order of the rows agrees with that of the paper."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from attention_research.studies.figures import Figure, canvas, caption, save
from attention_research.studies.point_labels import label_points
from attention_research.studies.results import Results, published
from attention_research.studies.significance import Correlation, Difference, holm, paired, rank_correlation
from attention_research.studies.verdicts import Comparison, compare

BASELINE, FINAL, SPEED = "vanilla_transformer", "measure.final_loss", "train.steps_per_second"
#: The columns that both tables have: our key, and the column of the paper.
COMPARED = {
    "steps a second": (SPEED, "steps a second"),
    "early loss": ("measure.early_loss", "early loss"),
    "final loss": (FINAL, "final loss"),
}
LEVEL = 0.05


class Point(NamedTuple):
    """The value of a row here, averaged over seeds, and in the paper."""

    name: str
    ours: float
    theirs: float


def timed() -> dict[str, dict[str, float]]:
    """Returns the step times of each row in the newest recorded run in which all rows took turns, or an empty dict.

    Trials ran hours apart and beside other processes; in that run all rows were timed within the same minutes
    (`benchmarks/narang2021.py`).
    """
    recorded = sorted(Path(__file__).parents[2].glob("benchmarks/results/narang2021-*.json"))
    times = json.loads(recorded[-1].read_text(encoding="utf-8"))["times"] if recorded else {}
    return {row: one for row, one in times.items() if isinstance(one, dict)}


def faster(results: Results, row: str, than: str) -> Comparison:
    """Compares the speed of two rows by the recorded step times, or, without these, by the speeds of the trials.

    The difference of recorded times is clear if their ranges do not overlap.
    """
    found = timed()
    if results.scale != "cpu" or not {row, than} <= found.keys():
        return compare(results, row, than, SPEED, higher=True)
    ours, theirs = found[row], found[than]
    gain = 1e3 / ours["median_ms"] - 1e3 / theirs["median_ms"]
    apart = lambda one, other: 0.0 if one["high_ms"] < other["low_ms"] else 0.5
    p, p_reversed = apart(ours, theirs), apart(theirs, ours)
    said = [f"{one['median_ms']:.1f} ms ({one['low_ms']:.1f} to {one['high_ms']:.1f})" for one in (ours, theirs)]
    return Comparison(row, than, gain, f"a step takes {said[0]} ({row}) against {said[1]} ({than})", p, p_reversed)


def points(results: Results, key: str, cell: str) -> list[Point]:
    """Returns the rows that have a value here and in the paper, in the order of the table."""
    printed, times = published(results.study), timed() if key == SPEED and results.scale == "cpu" else {}
    ours = lambda row: (1e3 / times[row]["median_ms"],) if row in times else results.values(row, key)
    found = ((row, ours(row.id), printed.get(row.id, {}).get(cell)) for row in results.rows)
    return [Point(row.name, statistics.fmean(values), float(there)) for row, values, there in found if values and there]


def correlations(results: Results) -> dict[str, Correlation]:
    """Returns, for each column that both tables have, the rank correlation of the rows."""
    found = {what: points(results, *keys) for what, keys in COMPARED.items()}
    return {
        what: rank_correlation([p.ours for p in some], [p.theirs for p in some])
        for what, some in found.items()
        if len(some) >= 4
    }


def by_seed(results: Results, row: str, key: str = FINAL) -> dict[int, float]:
    """Maps each seed to the value of a row."""
    stage, name = key.split(".", 1)
    entries = ((e.trial.seed, e.result["stages"].get(stage, {}).get(name)) for e in results.of(row) if e.result)
    return {seed: value for seed, value in entries if value is not None}


def differences(results: Results, key: str = FINAL) -> dict[str, Difference]:
    """Maps each row to its difference from the baseline, paired over seeds, with Holm's correction over all rows."""
    base, found = by_seed(results, BASELINE, key), {}
    for row in results.rows:
        here = by_seed(results, row.id, key)
        seeds = sorted(base.keys() & here.keys())
        if row.id != BASELINE and len(seeds) > 1:
            found[row.id] = paired([here[seed] for seed in seeds], [base[seed] for seed in seeds])
    adjusted = holm({row: one.p for row, one in found.items()})
    return {row: Difference(one.mean, adjusted[row]) for row, one in found.items()}


def better(results: Results, key: str = FINAL) -> list[str]:
    """Returns the rows whose value is significantly lower than that of the baseline, after the correction."""
    return [row for row, one in differences(results, key).items() if one.mean < 0 and one.p < LEVEL]


def scatter(what: str, results: Results, folder: Path) -> Figure | None:
    """Draws our rank of the rows by a column of `COMPARED` against the paper's rank, with the names of the rows."""
    some = points(results, *COMPARED[what])
    if len(some) < 4:
        return None
    pyplot, path = canvas(), folder / f"{what.replace(' ', '_')}_order.png"
    figure, axis = pyplot.subplots(figsize=(10.5, 8))
    found = correlations(results)[what]
    _panel(axis, what, some, found)
    save(figure, path, caption(results, "one point per row; grey line: equal ranks, square: the baseline"))
    said = f"Spearman's rank correlation of {len(some)} rows with the paper: {what} {found}."
    return Figure(path, f"Our rows against the paper's by {what}", said)


def _panel(axis: Any, what: str, some: list[Point], found: Correlation) -> None:
    """Draws ranks, so that outliers do not compress the other rows. The diagonal shows equal ranks."""
    from scipy.stats import rankdata

    ours, theirs = (rankdata([getattr(point, side) for point in some]) for side in ("ours", "theirs"))
    last = len(some)
    axis.plot([1, last], [1, last], color="#999999", linewidth=1, zorder=1)
    for point, x, y in zip(some, theirs, ours, strict=True):
        base = point.name == "Vanilla Transformer"
        axis.plot(x, y, "s" if base else "o", color="#D55E00" if base else "#0072B2", markersize=6, zorder=3)
    first = "slowest" if what == "steps a second" else "best"
    axis.set_xlabel(f"the paper's rank by {what} (1: the {first})")
    axis.set_ylabel(f"our rank (1: the {first})")
    for one in (axis.xaxis, axis.yaxis):
        one.get_major_locator().set_params(integer=True)
    axis.margins(0.06)
    axis.set_title(f"{what}: Spearman's correlation {found}")
    line = [(at / 4, at / 4) for at in range(4, 4 * last + 1)]  # no name covers the diagonal
    label_points(axis, [point.name for point in some], list(zip(theirs, ours, strict=True)), size=9, other=line)

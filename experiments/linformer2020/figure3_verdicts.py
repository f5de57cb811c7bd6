"""The verdict and the figure of `linformer2020/figure3`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, rows_as_points, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Verdict, conclude, margin_of, no_worse

KEY = "evaluate.perplexity"


def near(results: Results) -> Verdict:
    """The perplexity of every Linformer is above that of full attention by less than the margin of the claim."""
    margin = margin_of(results, "linformer-quality")
    full = results.mean("full", KEY)
    rows = [row for row in results.study.rows_at(results.scale) if row.id != "full"]
    if full is None or not any(results.values(row.id, KEY) for row in rows):
        return Verdict(UNTESTED, "full attention or Linformer is not measured")
    said = [f"{row.name}: {mean / full - 1:+.1%}" for row in rows if (mean := results.mean(row.id, KEY)) is not None]
    return conclude({row.name: no_worse(results, row.id, "full", KEY, margin) for row in rows}).beside(*said)


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity of every row, one point per seed; a line shows the mean of full attention."""
    rows = [row for row in results.rows if results.values(row.id, KEY)]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axis = pyplot.subplots(figsize=(7, 1 + 0.4 * len(rows)))
    rows_as_points(axis, {row.name: results.values(row.id, KEY) for row in rows})
    said += [f"{row.name} {results.mean(row.id, KEY):.2f}" for row in rows]
    if (full := results.mean("full", KEY)) is not None:
        axis.axvline(full, color="grey", linewidth=1)
    axis.set_xlabel("perplexity of masked tokens")
    where = folder / "perplexity.png"
    save(
        figure,
        where,
        caption(results, "points: seeds, bars: mean, grey line: mean of full attention", rows=[row.id for row in rows]),
    )
    return Figure(where, "Perplexity by projected length", f"{'; '.join(said)}.")

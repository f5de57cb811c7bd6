"""The figures of `lectures/nonlinearity`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results

from .verdicts import DEPTHS, LOST, mean_curve

SIDES = {"with": "with feed-forward network", "without": "without, three times the heads"}


def _looks(results: Results) -> dict[str, dict[str, Any]]:
    """The styles of untrained models, and of `SIDES`."""
    return styles_of([*(row.id for row in results.study.rows if "residual" in row.settings), *SIDES])


def draw_distances(results: Results, folder: Path) -> Figure | None:
    """Draws the distance from the mean vector by depth, for random weights and for the deepest trained models.

    Dotted lines are the trained models before training.
    """
    drawn = [row for row in results.rows if "residual" in row.settings and mean_curve(results, row.id)]
    if not drawn:
        return None
    trained = {side: curve for side in SIDES if (curve := mean_curve(results, f"{side}_{DEPTHS[-1]}"))}
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2 if trained else 1, figsize=(10 if trained else 7, 4.6), squeeze=False)
    said = []
    looks = _looks(results)
    for row in drawn:
        curve, line = mean_curve(results, row.id), {"linewidth": 1.5, "markersize": 5, **looks[row.id]}
        axes[0, 0].plot([max(one, LOST / 10) for one in curve], label=f"untrained: {row.name}", **line)
        said.append(f"{row.name} {curve[-1]:.2g}")
    axes[0, 0].set_yscale("log")
    axes[0, 0].axhline(LOST, color="#888888", linewidth=1.2, label="precision of float32")
    axes[0, 0].set_title("random weights")
    axes[0, 0].set_ylabel("distance from the mean vector / norm")
    for side, curve in trained.items():
        colour, marker = looks[side]["color"], looks[side]["marker"]
        axes[0, 1].plot(curve, marker=marker, color=colour, label=f"trained: {SIDES[side]}")
        before = mean_curve(results, f"{side}_{DEPTHS[-1]}", "distances_untrained")
        axes[0, 1].plot(before, ":", color=colour, label=f"before training: {SIDES[side]}")
        axes[0, 1].set_title(f"{DEPTHS[-1]} layers, before and after training")
        axes[0, 1].set_ylim(0, 1.02)
    for axis in axes[0]:
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("layer (0: input)")
    legend(figure, columns=2)
    where = folder / "distances.png"
    save(figure, where, caption(results, "lines: mean over seeds"))
    return Figure(
        where, "Distance from the mean vector by depth", f"At the last layer with random weights: {'; '.join(said)}."
    )


def draw_quality(results: Results, folder: Path) -> Figure | None:
    """Draws perplexity and accuracy by depth, with and without the feed-forward network.

    Each seed is a point; the line goes through the means.
    """
    keys = {"evaluate.perplexity": "perplexity", "measure.accuracy": "next-token accuracy, share"}
    if not any(results.values(f"{side}_{depth}", "measure.accuracy") for side in SIDES for depth in DEPTHS):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8))
    said = []
    for axis, (key, title) in zip(axes, keys.items(), strict=True):
        for (side, name), style in ((one, _looks(results)[one[0]]) for one in SIDES.items()):
            at = {depth: values for depth in DEPTHS if (values := results.values(f"{side}_{depth}", key))}
            means = [sum(values) / len(values) for values in at.values()]
            axis.plot(list(at), means, label=name, linewidth=1.4, **style)
            for depth, values in at.items():
                axis.plot([depth] * len(values), values, ".", color=style["color"], alpha=0.6)
            said += [f"{title}, {name}, {depth}: {mean:.3g}" for depth, mean in zip(at, means, strict=True)]
        axis.set_ylabel(title)
        axis.set_xticks(DEPTHS)
        axis.set_xlabel("layers")
    legend(figure)
    where = folder / "quality.png"
    save(
        figure,
        where,
        caption(
            results,
            "lines: mean over seeds, dots: seeds",
            rows=[f"{side}_{depth}" for side in SIDES for depth in DEPTHS],
        ),
    )
    return Figure(where, "With and without the feed-forward network at equal parameters", f"{'; '.join(said)}.")

"""The figures of `lectures/nonlinearity`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save, styles
from attention_research.studies.results import Results

from .verdicts import DEPTHS, LOST, mean_curve

SIDES = {"with": "feed-forward", "without": "three times the heads"}


def draw_distances(results: Results, folder: Path) -> Figure | None:
    """Draws the distance from the mean vector by depth, for random weights and for the deepest trained models.

    Dotted lines are the trained models before training.
    """
    drawn = [row for row in results.rows if "residual" in row.settings and mean_curve(results, row.id)]
    if not drawn:
        return None
    trained = {side: curve for side in SIDES if (curve := mean_curve(results, f"{side}_{DEPTHS[-1]}"))}
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2 if trained else 1, figsize=(12 if trained else 7, 4.2), squeeze=False)
    said = []
    for row, style in zip(drawn, styles(), strict=False):
        curve = mean_curve(results, row.id)
        axes[0, 0].plot([max(one, LOST / 10) for one in curve], label=row.name, linewidth=1.5, markersize=5, **style)
        said.append(f"{row.name} {curve[-1]:.2g}")
    axes[0, 0].set_yscale("log")
    axes[0, 0].axhline(LOST, color="#888888", linewidth=0.8)
    axes[0, 0].text(0, LOST * 1.3, "float32 precision", fontsize=8, color="#555555")
    axes[0, 0].set_title("random weights", loc="left", fontsize=11)
    axes[0, 0].set_ylabel("distance from the mean vector / norm")
    axes[0, 0].legend(fontsize=9)
    for (side, curve), colour in zip(trained.items(), COLOURS[1:], strict=False):
        axes[0, 1].plot(curve, "o-", color=colour, label=SIDES[side])
        axes[0, 1].plot(mean_curve(results, f"{side}_{DEPTHS[-1]}", "distances_untrained"), ":", color=colour)
        axes[0, 1].set_title(f"{DEPTHS[-1]} layers, trained (dotted: before)", loc="left", fontsize=11)
        axes[0, 1].set_ylim(0, 1.02)
        axes[0, 1].legend(fontsize=9)
    for axis in axes[0]:
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("layer (0: input)")
    where = folder / "distances.png"
    save(pyplot, figure, where)
    return Figure(
        where, "Distance from the mean vector by depth", f"At the last layer with random weights: {'; '.join(said)}."
    )


def draw_quality(results: Results, folder: Path) -> Figure | None:
    """Draws perplexity and accuracy by depth, with and without the feed-forward network.

    Each seed is a point; the line goes through the means.
    """
    keys = {"evaluate.perplexity": "perplexity", "measure.accuracy": "next-token accuracy"}
    if not any(results.values(f"{side}_{depth}", "measure.accuracy") for side in SIDES for depth in DEPTHS):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8))
    said = []
    for axis, (key, title) in zip(axes, keys.items(), strict=True):
        for (side, name), style in zip(SIDES.items(), styles(), strict=False):
            at = {depth: values for depth in DEPTHS if (values := results.values(f"{side}_{depth}", key))}
            means = [sum(values) / len(values) for values in at.values()]
            axis.plot(list(at), means, label=name, linewidth=1.4, **style)
            for depth, values in at.items():
                axis.plot([depth] * len(values), values, ".", color=style["color"], alpha=0.6)
            said += [f"{title}, {name}, {depth}: {mean:.3g}" for depth, mean in zip(at, means, strict=True)]
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xticks(DEPTHS)
        axis.set_xlabel("layers")
    axes[0].legend(fontsize=9)
    where = folder / "quality.png"
    save(pyplot, figure, where)
    return Figure(where, "With and without the feed-forward network at equal parameters", f"{'; '.join(said)}.")

"""The figures of `lectures/heads`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import COLOURS, Figure, canvas, heat_maps, save
from attention_research.studies.results import Results


def draw_maps(results: Results, folder: Path) -> Figure | None:
    """Draws the maps of the best head for the name and the best head for the subject on one held-out sentence."""
    kept = results.values("blanks", "measure.maps")
    return heat_maps(results, folder / "maps.png", kept[0] if kept else [], "an entity head and a syntax head")


def draw_heads(results: Results, folder: Path) -> Figure | None:
    """Draws attention distance by layer before and after training, pointing accuracy by link, and the loss without each
    head."""
    there = [row for row in ("blanks", "reviews") if results.values(row, "measure.distances")]
    if "blanks" not in there:
        return None
    mean = lambda row, name: results.mean_list(row, f"measure.{name}")
    one = lambda name: results.mean("blanks", f"measure.{name}")
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 3, figsize=(16, 4.2), width_ratios=(1, 1.2, 1.2))
    for row, colour in zip(there, COLOURS[1:], strict=False):
        layers = range(1, len(mean(row, "distances")) + 1)
        axes[0].plot(layers, mean(row, "distances"), "o-", color=colour, label=f"{row}, trained")
        axes[0].plot(layers, mean(row, "distances_untrained"), "s:", color=colour, label=f"{row}, untrained")
    axes[0].set(xlabel="layer", ylabel="mean distance, tokens")
    axes[0].legend(fontsize=8)
    bars = {"best_{}": "best head", "best_{}_untrained": "untrained", "offset_{}": "best fixed offset"}
    for number, (name, label) in enumerate(bars.items()):
        places = np.arange(3) + 0.27 * (number - 1)
        heights = [one(name.format(link)) for link in ("syntax", "entity", "local")]
        axes[1].bar(places, heights, width=0.25, color=COLOURS[number + 1], label=label)
    axes[1].set_xticks(range(3), ["verb -> subject", "pronoun -> name", "article -> next word"])
    axes[1].set_ylabel("accuracy of pointing at the deciding word")
    axes[1].legend(fontsize=8)
    pruned = results.values("blanks", "measure.pruned")[0]
    losses = sorted((loss for place in pruned.values() for row in place for loss in row), reverse=True)
    axes[2].bar(range(1, len(losses) + 1), losses, color=COLOURS[3])
    axes[2].set(xlabel="heads, most important first (one seed)", ylabel="largest loss of accuracy without it")
    for axis, title in zip(axes, ("attention distance", "pointing accuracy", "importance of heads"), strict=True):
        axis.set_title(title, loc="left", fontsize=11)
    where = folder / "heads.png"
    save(pyplot, figure, where)
    said = "; ".join(
        f"{link} {one(f'best_{link}'):.2f} (offset {one(f'offset_{link}'):.2f})"
        for link in ("syntax", "entity", "local")
    )
    return Figure(where, "Attention heads after training", f"Best head at the deciding word: {said}.")

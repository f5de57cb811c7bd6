"""The figures of `lectures/heads`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import (
    COLOURS,
    Figure,
    canvas,
    caption,
    groups_as_points,
    heat_maps,
    legend,
    save,
)
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
    figure, panels = pyplot.subplots(2, 2, figsize=(9.5, 7.2))
    axes = panels.ravel()
    for axis, row in zip(axes, there, strict=False):
        layers = range(1, len(mean(row, "distances")) + 1)
        axis.plot(layers, mean(row, "distances"), "o-", color=COLOURS[1], label="trained")
        axis.plot(layers, mean(row, "distances_untrained"), "s:", color=COLOURS[2], label="untrained")
        axis.set(xlabel="layer", ylabel="mean attention distance, tokens", xticks=layers)
        axis.set_ylim(0, 1.1 * max(mean(row, "distances") + mean(row, "distances_untrained")))
    bars = {
        "best_{}": "best head, trained",
        "best_{}_untrained": "best head, untrained",
        "offset_{}": "best fixed offset",
    }
    links = {"syntax": "verb to subject", "entity": "pronoun to name", "local": "article to next word"}
    looks = {label: {"color": COLOURS[n + 1], "marker": "osD"[n]} for n, label in enumerate(bars.values())}
    values = lambda name: results.values("blanks", f"measure.{name}")
    groups_as_points(
        axes[2],
        {said: {label: values(name.format(link)) for name, label in bars.items()} for link, said in links.items()},
        looks,
    )
    axes[2].set_ylim(0, 1.04)
    axes[2].set_ylabel("accuracy of pointing\nat the deciding word")
    pruned = results.values("blanks", "measure.pruned")[0]
    losses = sorted((loss for place in pruned.values() for row in place for loss in row), reverse=True)
    axes[3].plot(range(1, len(losses) + 1), losses, "o", color=COLOURS[0], markersize=4)
    axes[3].set(xlabel="heads of one seed, most important first", ylabel="largest loss of accuracy\nwithout the head")
    legend(figure, axes[[0, 2]], columns=5)
    titles = {"blanks": "attention distance, fill-in-the-blank", "reviews": "attention distance, film reviews"}
    for axis, title in zip(axes, (*titles.values(), "pointing accuracy", "importance of heads"), strict=True):
        axis.set_title(title)
    for axis in axes[len(there) : 2]:
        axis.remove()
    where = folder / "heads.png"
    save(figure, where, caption(results, "lines: mean over seeds; marks: seeds, their bars: mean", rows=there))
    said = "; ".join(
        f"{link} {one(f'best_{link}'):.2f} (offset {one(f'offset_{link}'):.2f})"
        for link in ("syntax", "entity", "local")
    )
    return Figure(where, "Attention heads after training", f"Best head at the deciding word: {said}.")

"""The figures of `dosovitskiy2020/data_size`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results

from .data_size_verdict import ACCURACY, AUGMENTED, NAMES, SIZES

#: The lines of the figure: (prefix of the row ids, sizes, suffix of the row ids, label).
LINES = (
    *((model, SIZES, "", name) for model, name in NAMES.items()),
    *((model, AUGMENTED, "_augmented", f"{NAMES[model]}, flipped and shifted") for model in ("vit", "cnn")),
)


def draw_sizes(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy by the number of training images: one line per model, one point per seed, dashed if
    augmented."""
    pyplot, said = canvas(), []
    figure, axis = pyplot.subplots(figsize=(8, 4.8))
    colours = dict(zip(NAMES, COLOURS[1:], strict=False))
    for model, sizes, suffix, name in LINES:
        found = {size: values for size in sizes if (values := results.values(f"{model}_{size}{suffix}", ACCURACY))}
        if not found:
            continue
        means = [statistics.fmean(values) for values in found.values()]
        axis.plot(list(found), means, "--" if suffix else "-", color=colours[model], label=name)
        for size, values in found.items():
            axis.plot(
                [size] * len(values), values, "v" if suffix else "o", color=colours[model], alpha=0.6, markersize=5
            )
        said.append(f"{name} {', '.join(f'{mean:.1f}' for mean in means)}")
    if not said:
        pyplot.close(figure)
        return None
    axis.set_xscale("log")
    axis.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axis.minorticks_off()
    axis.set_xlabel("number of training images")
    axis.set_ylabel("test accuracy, %")
    legend(figure, columns=3)
    where = folder / "data_size.png"
    save(figure, where, caption(results, "lines: mean over seeds, points: seeds"))
    return Figure(where, "Accuracy by the number of training images", f"{'; '.join(said)}.")


def draw_rollout(results: Results, folder: Path) -> Figure | None:
    """Draws test images of the first seed, and over each the attention rollout to the class token
    (`analysis.rollout`)."""
    row = f"vit_{SIZES[-1]}"
    pictures = next(iter(results.values(row, "measure.pictures")), None)
    if not pictures:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(2, len(pictures), figsize=(1.3 * len(pictures), 3.1), squeeze=False)
    for (above, below), one in zip(axes.T, pictures, strict=True):
        side = len(one["image"])
        above.imshow(one["image"], cmap="gray", vmin=0, vmax=255)
        below.imshow(one["image"], cmap="gray", vmin=0, vmax=255)
        below.imshow(one["map"], cmap="inferno", alpha=0.7, extent=(-0.5, side - 0.5, side - 0.5, -0.5))
        right = one["predicted"] == one["label"]
        above.set_title(one["label"] if right else f"{one['label']}:\npredicted {one['predicted']}", fontsize=8)
        for axis in (above, below):
            axis.axis("off")
    where = folder / "rollout.png"
    save(figure, where, caption(results, "attention rollout below each image, bright: large weights", seeds="1 seed"))
    mass, share = results.mean(row, "measure.mass"), results.mean(row, "measure.share")
    said = f"{100 * (mass or 0):.0f} % of it lies on the {100 * (share or 0):.0f} % of patches that show the object"
    return Figure(where, "Attention rollout from image patches to the class token, last layer", f"{said}.")

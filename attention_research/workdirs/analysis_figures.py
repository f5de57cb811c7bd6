"""The figures of `analyze`. The text `line` stands below a figure: run, config, seed, checkpoint and examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.analysis import attention_picture
from attention_research.analysis.attention import Attention, AttentionMap, Layers, Pass
from attention_research.analysis.spectra import GRID, rank_for
from attention_research.studies.figures import COLOURS, Figure, canvas, save, styles_of

NAMES = {
    "entropy": "entropy / maximum",
    "distance": "distance, tokens",
    "diagonal": "weight on own position",
    "previous": "weight on previous position",
    "first": "weight on first position",
}


def draw_maps(one: Pass, facts: Mapping[str, str], path: Path) -> Figure:
    """Draws the attention maps of one pass, one panel for each layer and head (`analysis.attention_picture`)."""
    attention_picture.draw(Attention((one,), facts), path)
    said = "; ".join(
        f"{each.title}: {each.weights.shape[0]} layers of {each.weights.shape[1]} heads" for each in one.maps
    )
    texts = "; ".join(f"{name}: {text}" for name, text in one.sentences.items())
    title = f"One example, every layer and head, with the {one.of}"
    return Figure(path, title, f"{said}. {texts}")


def draw_heads(
    title: str, numbers: Mapping[str, Float[np.ndarray, "L N"]], layers: Layers, path: Path, line: str
) -> Figure:
    """Draws one panel for each statistic, with one cell for each head. The first layer is at the bottom."""
    pyplot = canvas()
    count, heads = next(iter(numbers.values())).shape
    figure, axes = pyplot.subplots(
        1, len(NAMES), figsize=(max(3.0, 0.8 + 0.36 * heads) * len(NAMES), 1.2 + 0.4 * count)
    )
    for axis, (name, label) in zip(axes, NAMES.items(), strict=True):
        values = numbers[name]
        top = max(values.max(), 1e-9) if name == "distance" else 1.0
        axis.imshow(values, origin="lower", aspect="auto", cmap="viridis", vmin=0.0, vmax=top)
        for (layer, head), value in np.ndenumerate(values):
            colour = "black" if value > 0.6 * top else "white"
            axis.text(head, layer, f"{value:.2g}", ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1))
        axis.set_yticks(range(count), layers.numbers)
        axis.set_title(label, loc="left", fontsize=10)
        axis.set_xlabel("head")
        axis.grid(visible=False)
    axes[0].set_ylabel("layer")
    figure.suptitle(f"Heads: {title}", x=0.01, ha="left")
    save(figure, path, line)
    said = "; ".join(f"{label} {numbers[name].min():.2g} to {numbers[name].max():.2g}" for name, label in NAMES.items())
    return Figure(path, f"Heads: {title}", f"{title}: {said}.")


def draw_rollout(shown: AttentionMap, reached: Float[np.ndarray, "L T T"], path: Path, line: str) -> Figure:
    """Draws the rollout after the first and the last layer. Row i is the share of each input token in position i."""
    tokens, title = shown.queries, shown.title
    pyplot = canvas()
    chosen = sorted({0, len(reached) - 1})
    size = min(0.22 * len(tokens) + 1.5, 9)
    figure, axes = pyplot.subplots(1, len(chosen), figsize=(len(chosen) * size, size), squeeze=False)
    every = max(1, len(tokens) // 32)
    for axis, layer in zip(axes[0], chosen, strict=True):
        axis.imshow(reached[layer], cmap="Greys", vmin=0.0, vmax=max(0.05, float(np.quantile(reached[layer], 0.995))))
        axis.set_xticks(range(0, len(tokens), every), shown.keys[::every], rotation=90, fontsize=7)
        axis.set_yticks(range(0, len(tokens), every), tokens[::every], fontsize=7)
        axis.set_title(f"after layer {layer + 1}", loc="left", fontsize=10)
        axis.set(xlabel=f"input: {shown.columns}", ylabel=f"position: {shown.rows}")
        axis.grid(visible=False)
    figure.suptitle(f"Rollout: {title}", x=0.01, ha="left")
    save(figure, path, line)
    own = np.diagonal(reached[-1]).mean()
    return Figure(
        path, f"Rollout: {title}", f"{title}, {shown.rows}: after the last layer a position is {own:.2f} itself."
    )


def draw_spectra(title: str, curves: Float[np.ndarray, "L N G"], layers: Layers, path: Path, line: str) -> Figure:
    """Draws the cumulative sum of singular values: a thin line for each head, a thick line for the mean of a layer."""
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(6.5, 4.2))
    styles = styles_of(map(str, layers.numbers)).values()
    for layer, heads, style in zip(layers.numbers, curves, styles, strict=True):
        look = {"color": style["color"], "linestyle": style["linestyle"]}
        axis.plot(GRID, heads.T, linewidth=0.5, alpha=0.5, **look)
        axis.plot(GRID, heads.mean(axis=0), linewidth=1.8, label=f"layer {layer}", **look)
    axis.plot([], [], color="#888888", linewidth=0.5, label="its heads")
    axis.axhline(0.9, color="#888888", linewidth=0.8, linestyle=":", label="90 % of the sum")
    axis.set(xlabel="share of singular values, largest first", ylabel="share of their sum")
    axis.set_title(f"Singular values: {title}", loc="left")
    axis.legend(fontsize=8, loc="lower right")
    save(figure, path, line)
    ranks = ", ".join(
        f"layer {layer} {rank_for(heads.mean(axis=0)):.2f}" for layer, heads in zip(layers.numbers, curves, strict=True)
    )
    return Figure(path, f"Singular values: {title}", f"{title}: nine tenths of the sum are in {ranks} of the values.")


def draw_probe(found: Mapping[str, Any], path: Path, line: str) -> Figure:
    """Draws the error of the probe by layer, trained and untrained, and of always predicting the middle position."""
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(6.5, 4))
    axis.plot(found["errors"], "o-", color=COLOURS[1], label="trained")
    axis.plot(found["errors_untrained"], "s--", color=COLOURS[2], label="untrained")
    axis.axhline(found["middle"], color="#888888", linewidth=0.8, label="always the middle")
    axis.set(xlabel="layer (0: embeddings)", ylabel="mean distance, tokens")
    axis.legend(fontsize=9)
    save(figure, path, line)
    said = ", ".join(f"{error:.1f}" for error in found["errors"])
    return Figure(path, "Position probe by layer", f"Mean distance in tokens, from the embeddings on: {said}.")

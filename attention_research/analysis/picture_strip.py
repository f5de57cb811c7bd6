"""Draws the attention over an image as a strip: the image, then a panel for each word with the attended locations
highlighted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attention_research.analysis.picture_attention import PictureAttention

#: The number of panels in a row.
ACROSS = 8
#: The highlight colour of the location with the largest weight: red, green and blue.
LIGHT = (1.0, 0.8, 0.3)


def draw(attention: PictureAttention, path: Path) -> None:
    """Writes the PNG of the first map. For a Transformer, this is the mean of the heads of the last layer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    title, weights = attention.maps[0]
    panels = 1 + len(attention.words)
    rows = -(-panels // ACROSS)
    size = (1.5 * min(panels, ACROSS), 1.75 * rows)
    figure, axes = pyplot.subplots(rows, min(panels, ACROSS), figsize=size, squeeze=False)
    for axis in axes.ravel():
        axis.axis("off")
    axes[0, 0].imshow(squeezed(attention.image), cmap="gray")
    axes[0, 0].set_title(title, fontsize=7, loc="left")
    for axis, word, mask in zip(axes.ravel()[1:], attention.words, weights, strict=False):
        lit(axis, attention.image, mask)
        axis.set_title(word, fontsize=9)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def squeezed(image: np.ndarray) -> np.ndarray:
    """The image in the form of matplotlib, where a grey image [Y X] has no channel axis."""
    return image[..., 0] if image.shape[-1] == 1 else image


def lit(axis: Any, image: np.ndarray, mask: np.ndarray) -> None:
    """Draws the image with the mask [V U] as an overlay.

    Locations with small weights, relative to the largest, are darkened. Locations with large weights are highlighted,
    because darkening alone is invisible on a black background.
    """
    axis.imshow(squeezed(image), cmap="gray")
    share = mask / max(mask.max(), 1e-12)
    over = np.zeros((*mask.shape, 4))
    over[..., :3] = share[..., None] * LIGHT
    over[..., 3] = 0.75 - 0.35 * share
    axis.imshow(over, interpolation="nearest", extent=(-0.5, image.shape[1] - 0.5, image.shape[0] - 0.5, -0.5))

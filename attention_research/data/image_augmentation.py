"""Flipped and shifted images (He et al. 2015, section 4.2): what training sees of a small photograph."""

from __future__ import annotations

import numpy as np

#: So many pixels of black are put around an image before a piece of its size is cut out.
PADDING = 4


def flipped_and_shifted(images: np.ndarray, generator: np.random.Generator, first: int = 0) -> np.ndarray:
    """Images uint8 [n Y X C], each shifted by up to four pixels either way, up, down and sideways, and every second one
    mirrored on average.

    What comes in from beside an image is black, 0. `generator` draws for the images of a whole batch, of which these
    are the ones from `first` on, so that several hosts see what one would.
    """
    draws = generator.random((first + len(images), 3))[first:]
    top, left = np.floor((2 * PADDING + 1) * draws[:, :2]).astype(int).T
    mirrored = draws[:, 2] < 0.5
    padded = np.pad(images, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    rows = top[:, None] + np.arange(images.shape[1])
    columns = np.arange(images.shape[2])
    columns = left[:, None] + np.where(mirrored[:, None], columns[::-1], columns)
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]

"""Finds nearly equal pictures, so that a split can keep them together (as `near_duplicates` does for texts).

Two pictures are alike if their root mean square difference, after shrinking, is at most `LIMIT` grey values.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from attention_research.data.image_source import resized
from attention_research.data.near_duplicates import Link

#: The side to which pictures are shrunk, and the largest difference between two alike pictures.
SIDE, LIMIT = 24, 3.0
#: The number of pictures that are compared with all others at once.
_ROWS = 256


def alike(images: Sequence[np.ndarray], limit: float = LIMIT) -> Iterator[Link]:
    """The pairs of images [Y X C] that are alike.

    >>> black, dark = np.zeros((3, 3, 1), np.uint8), np.full((2, 2, 3), 2, np.uint8)
    >>> list(alike([black, 255 - black, dark]))
    [(0, 2)]
    """
    small = np.stack([resized(image, SIDE, 3) for image in images]).reshape(len(images), -1).astype(np.float64)
    squares = (small**2).sum(axis=1)
    for start in range(0, len(small), _ROWS):
        rows = slice(start, start + _ROWS)
        distance = squares[rows, None] + squares[start:] - 2 * small[rows] @ small[start:].T  # exact: integers
        for one, other in np.argwhere(np.triu(distance <= limit**2 * small.shape[1], k=1)):
            yield start + int(one), start + int(other)

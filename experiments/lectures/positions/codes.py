"""Position encodings, with one vector for each step [T D], and measurements of their properties.

Four properties are desired (Kazemnejad 2019, "Transformer architecture: the positional encoding"): a unique encoding
for every step; the same distance for the same offset, at all positions and text lengths; bounded values; and
determinism. The sinusoid is `kernels.sinusoidal_positions` (Vaswani et al. 2017, section 3.5). The other encodings are
compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.kernels import sinusoidal_positions

Codes = Float[np.ndarray, "T D"]
_ROWS = 512


def learned(length: int, width: int, seed: int = 0) -> Codes:
    """A learned table before training: N(0, 1/D)."""
    return np.random.default_rng(seed).standard_normal((length, width)) * width**-0.5


def index(length: int, width: int) -> Codes:
    """The number of the step in every feature."""
    return np.repeat(np.arange(length, dtype=np.float64)[:, None], width, axis=1)


def fraction(length: int, width: int) -> Codes:
    """The number of the step divided by the length."""
    return index(length, width) / max(length - 1, 1)


def binary(length: int, width: int) -> Codes:
    """The bits of the step's number, lowest bit first. If there are fewer features than bits, encodings repeat."""
    return (np.arange(length)[:, None] >> np.minimum(np.arange(width), 62) & 1).astype(np.float64)


def sinusoidal(length: int, width: int) -> Codes:
    """The sinusoidal encoding of the kernel, in float64."""
    return np.asarray(sinusoidal_positions(length, width), np.float64)


SCHEMES: dict[str, Callable[[int, int], Codes]] = {
    "sinusoidal": sinusoidal,
    "learned": learned,
    "index": index,
    "fraction": fraction,
    "binary": binary,
}


def smallest_distance(codes: Codes) -> float:
    """The smallest distance between the encodings of two different steps.

    >>> smallest_distance(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]))
    1.0
    """
    smallest = np.inf
    squares = (codes**2).sum(axis=1)
    for first in range(0, len(codes), _ROWS):
        rows = codes[first : first + _ROWS]
        apart = squares[first : first + _ROWS, None] + squares - 2 * rows @ codes.T
        apart[np.arange(len(rows)), first + np.arange(len(rows))] = np.inf
        nearest = np.argmin(apart, axis=1)  # the sum above loses precision, so the nearest pair is measured again
        smallest = min(smallest, float(np.linalg.norm(rows - codes[nearest], axis=1).min()))
    return smallest


def offset_distances(codes: Codes, offsets: Sequence[int]) -> list[tuple[float, float]]:
    """For each offset, the (smallest, largest) distance of two steps at this offset, over all positions."""
    found = [np.linalg.norm(codes[offset:] - codes[:-offset], axis=1) for offset in offsets]
    return [(float(one.min()), float(one.max())) for one in found]


def inconsistency(
    scheme: Callable[[int, int], Codes], lengths: Sequence[int], width: int, offsets: Sequence[int]
) -> float:
    """How much the distance at one offset varies over positions and lengths, divided by the largest distance.

    The value is that of the worst offset.
    """
    spans = [offset_distances(scheme(length, width), offsets) for length in lengths]
    worst = 0.0
    for at_offset in zip(*spans, strict=True):
        low, high = min(span[0] for span in at_offset), max(span[1] for span in at_offset)
        worst = max(worst, (high - low) / high if high else 0.0)
    return worst


def wavelengths(codes: Codes) -> Float[np.ndarray, "P"]:
    """The wavelength of each pair (sine, cosine), from its mean rotation per step."""
    turns = np.unwrap(np.arctan2(codes[:, 0::2], codes[:, 1::2]), axis=0)
    return 2 * np.pi * (len(codes) - 1) / (turns[-1] - turns[0])


def rotation(width: int, offset: int, base: float = 10000.0) -> Float[np.ndarray, "D D"]:
    """Returns R with p(t + offset) = R p(t) for every t. It rotates each pair (sine, cosine) by offset times its
    frequency."""
    turned = np.zeros((width, width))
    for pair in range(width // 2):
        angle = offset * base ** (-2 * pair / width)
        sine, cosine = 2 * pair, 2 * pair + 1
        turned[sine, [sine, cosine]] = np.cos(angle), np.sin(angle)
        turned[cosine, [sine, cosine]] = -np.sin(angle), np.cos(angle)
    return turned


def along_diagonals(products: Float[np.ndarray, "T T"]) -> tuple[list[float], float]:
    """Returns (the mean of each diagonal, beginning with the main diagonal; the largest variation along a diagonal)."""
    diagonals = [np.diagonal(products, offset) for offset in range(len(products))]
    return [float(one.mean()) for one in diagonals], max(float(one.max() - one.min()) for one in diagonals)


def sign_changes(codes: Codes) -> list[int]:
    """How often each feature crosses the middle of its range.

    >>> sign_changes(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    [3, 1]
    """
    above = codes > (codes.max(axis=0) + codes.min(axis=0)) / 2
    return [int(count) for count in (above[1:] != above[:-1]).sum(axis=0)]


def measure_codes(
    *,
    scheme: str,
    code_width: int,
    code_length: int,
    lengths: Sequence[int],
    offsets: Sequence[int],
    seed: int,
    **_: Any,
) -> dict[str, Any]:
    """Measures an encoding.

    "smallest_distance" is over `code_length` steps, and "inconsistency" over `lengths`. "largest_short" and "largest"
    are the largest values at the shortest and the longest of `lengths`. "repeatable" is 1 if a second call gives the
    same bits.
    """
    code = SCHEMES[scheme]
    make = (lambda length, width: learned(length, width, seed)) if scheme == "learned" else code
    short, long = (float(np.abs(make(length, code_width)).max()) for length in (min(lengths), max(lengths)))
    return {
        "smallest_distance": smallest_distance(make(code_length, code_width)),
        "inconsistency": inconsistency(make, lengths, code_width, offsets),
        "largest_short": short,
        "largest": long,
        "repeatable": float(np.array_equal(code(max(lengths), code_width), make(max(lengths), code_width))),
    }

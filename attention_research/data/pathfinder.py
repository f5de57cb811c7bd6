"""Pathfinder (Linsley et al. 2018, arXiv 1805.08315; Kim et al. 2020), generated: does a dashed path connect two dots?

The Long Range Arena uses the authors' images of 32 x 32 grey pixels; this is a smaller version of the same task. Paths
are dashed walks on a lattice with `PITCH` pixels per step. They share no node, so that the distance between two paths
is at least `PITCH` pixels. There are two long paths and `distractors` short ones. The dots are at the two ends of one
long path (class 1), or at one end of each long path (class 0). Images of class 0 are redrawn until their dots have the
same distance, in steps, as the dots of an extra image of class 1, so that the distance does not predict the class.

A pixel is a token: 1 background, 2 path, 3 dot; 0, padding, does not occur. The images are generated.
"""

from __future__ import annotations

import random

import numpy as np

from attention_research.data.labelled_arrays import LabelledArrays, kept
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import NonNegative, Positive

PITCH = 4
BACKGROUND, PATH, DOT = 1, 2, 3
#: A pixel of a path is not drawn if its number modulo the pitch is one of these; nodes are always drawn.
GAPS = (2,)
_SEEDS = {"train": 1805, "validation": 1806, "test": 1807}

Node = tuple[int, int]


def walk(chance: random.Random, lattice: int, nodes: int, taken: set[Node]) -> list[Node] | None:
    """A random walk over `nodes` distinct free nodes; None if it runs into a dead end."""
    free = [(row, column) for row in range(lattice) for column in range(lattice) if (row, column) not in taken]
    if not free:
        return None
    path = [chance.choice(free)]
    while len(path) < nodes:
        row, column = path[-1]
        around = ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1))
        open_ = [node for node in around if node in free and node not in path]
        if not open_:
            return None
        path.append(chance.choice(open_))
    return path


def walks(chance: random.Random, lattice: int, lengths: list[int]) -> list[list[Node]]:
    """Walks with the given numbers of nodes that share no node; all are redrawn until they fit."""
    while True:
        found: list[list[Node]] = []
        for nodes in lengths:
            path = walk(chance, lattice, nodes, {node for other in found for node in other})
            if path is None:
                break
            found.append(path)
        else:
            return found


def pixels(path: list[Node]) -> list[Node]:
    """The pixels along a path, from its first node to its last."""
    along = [(row * PITCH, column * PITCH) for row, column in path]
    return [along[0], *(
        (a[0] + (b[0] - a[0]) * step // PITCH, a[1] + (b[1] - a[1]) * step // PITCH)
        for a, b in zip(along, along[1:], strict=False) for step in range(1, PITCH + 1)
    )]  # fmt: skip


def drawn(paths: list[list[Node]], dots: tuple[Node, Node], lattice: int, gaps: tuple[int, ...] = GAPS) -> np.ndarray:
    """The image [size size] of paths and of two nodes with dots; without `gaps` the paths are solid."""
    image = np.full((size_of(lattice),) * 2, BACKGROUND, np.int32)
    for path in paths:
        for number, pixel in enumerate(pixels(path)):
            if number % PITCH not in gaps:
                image[pixel] = PATH
    for row, column in dots:
        image[row * PITCH, column * PITCH] = DOT
    return image


def steps_apart(one: Node, other: Node) -> int:
    """Steps on the lattice between two nodes."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def size_of(lattice: int) -> int:
    """The side of an image, in pixels."""
    return PITCH * (lattice - 1) + 1


class Pathfinder(LabelledArrays):
    """Images on a lattice of `lattice` x `lattice` nodes, with long paths of `nodes` nodes; `max_length` is the number
    of pixels."""

    def __init__(
        self,
        *,
        max_length: Positive,
        lattice: Positive = 8,
        nodes: Positive = 9,
        distractors: NonNegative = 4,
        train_examples: Positive = 160_000,
        held_out: Positive = 2000,
    ):
        if size_of(lattice) ** 2 != max_length:
            raise ConfigError(
                f"data.max_length: a lattice of {lattice} makes {size_of(lattice) ** 2} pixels, not {max_length}"
            )
        if nodes < 2:
            raise ConfigError(f"data.nodes: a path has two ends with a dot each, so at least 2 nodes; got {nodes}")
        if 2 * nodes + 2 * distractors > lattice**2 // 2 + lattice:
            raise ConfigError(f"data.nodes: {nodes} leave no room for two paths on a lattice of {lattice}")
        numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        self.shape = {"lattice": lattice, "nodes": nodes, "distractors": distractors}
        super().__init__("pathfinder", max_length, numbers, ("apart", "connected"), self.shape)

    def puzzle(self, chance: random.Random, connected: bool) -> tuple[list[list[Node]], tuple[Node, Node]]:
        """(paths, the nodes of the two dots)."""
        lengths = [self.shape["nodes"]] * 2 + [2] * self.shape["distractors"]
        draw = lambda: walks(chance, self.shape["lattice"], lengths)
        paths = draw()
        ends = paths[0][0], paths[0][-1]
        if connected:
            return paths, ends
        while True:
            paths = draw()
            apart = [(one, other) for one in paths[0][:: len(paths[0]) - 1] for other in paths[1][:: len(paths[1]) - 1]]
            as_far = [dots for dots in apart if steps_apart(*dots) == steps_apart(*ends)]
            if as_far:
                return paths, chance.choice(as_far)

    def _made(self, split: str) -> Batch:
        return kept(type(self), [split, self.numbers[split], self.shape], lambda: self._drawn(split))

    def _drawn(self, split: str) -> Batch:
        chance, number = random.Random(_SEEDS[split]), self.numbers[split]
        self._report(f"drawing {number:,} images of {split}")
        label = np.arange(number) % 2
        puzzles = (self.puzzle(chance, bool(connected)) for connected in label)
        images = [drawn(*puzzle, self.shape["lattice"]).reshape(-1) for puzzle in puzzles]
        return {"source": np.stack(images), "label": label}

"""How examples become rows of fixed shapes: one a row in length buckets, or several a row, packed with segment ids.

A batch is a flat dictionary of int32 arrays: `source` [B S] and `target` [B T], 0 where padding; where rows are packed
also `source_segments`, `source_positions` and the same of the target. Segment 0 is padding, 1 and up the examples of a
row; positions count from 0 in each example and are 0 in padding. A target ends with the end of sentence and has no
beginning.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from attention_research.data import plan
from attention_research.data.protocol import Batch
from attention_research.registry import Positive

Parts = tuple[str, ...]
#: The lengths to which evaluation pads where rows are packed in training.
EVALUATION_LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class Tokens(Protocol):
    """The token ids of example after example."""

    def __getitem__(self, index: int, /) -> np.ndarray: ...


def _up_to(boundaries: Sequence[int], max_length: int) -> tuple[int, ...]:
    return (*sorted({length for length in boundaries if length < max_length}), max_length)


class Buckets:
    """One example a row, padded to the smallest of a few lengths that holds the source and the target.

    Every length is one more compilation. Boundaries from `max_length` on are replaced by `max_length`.
    """

    def __init__(
        self,
        *,
        boundaries: tuple[Positive, ...] = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512),
        max_length: Positive,
    ):
        self.lengths = _up_to(boundaries, max_length)
        self.parts = APART

    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(source length, target length) of every batch that training can see."""
        return tuple((length, length) for length in self.lengths)

    def plan(self, lengths: np.ndarray, seed: int, batch_size: int) -> plan.Plan:
        """The endless order of training; lengths [n 2] of source and target."""

        def epoch(number: int) -> plan.Epoch:
            return plan.bucket_epoch(lengths, self.lengths, batch_size, np.random.default_rng([seed, number]))

        return plan.Plan(epoch)

    def evaluation_lengths(self) -> tuple[int, ...]:
        """The lengths to which evaluation pads."""
        return self.lengths


class Packed:
    """Several examples a row, first-fit, in rows of `max_length` source and `max_length` target tokens.

    Segments keep the examples of a row apart (Raffel et al. 2020 train so). One shape: one compilation.
    """

    def __init__(self, *, max_length: Positive):
        self.max_length = max_length
        self.parts = PACKED

    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(source length, target length) of every batch that training can see."""
        return ((self.max_length, self.max_length),)

    def plan(self, lengths: np.ndarray, seed: int, batch_size: int) -> plan.Plan:
        """The endless order of training; lengths [n 2] of source and target."""
        (shape,) = self.shapes()
        rows = plan.first_fit(lengths, *shape, order=np.random.default_rng([seed]).permutation(len(lengths)))

        def epoch(number: int) -> plan.Epoch:
            return plan.packed_epoch(rows, shape, batch_size, np.random.default_rng([seed, number]))

        return plan.Plan(epoch)

    def evaluation_lengths(self) -> tuple[int, ...]:
        """The lengths to which evaluation pads (there, one example a row)."""
        return _up_to(EVALUATION_LENGTHS, self.max_length)


APART, PACKED = ("",), ("", "_segments", "_positions")


def batch_shapes(
    rows: int, source_length: int, target_length: int, parts: Parts = PACKED
) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every array of a batch."""
    lengths = {"source": source_length, "target": target_length}
    return {f"{side}{part}": (rows, lengths[side]) for side in lengths for part in parts}


def assemble(step: plan.Step, sources: Tokens, targets: Tokens, parts: Parts = PACKED) -> dict[str, np.ndarray]:
    """The batch of a step; examples longer than the row are cut and keep their last token, the end of sentence.

    `parts` APART leaves out the segments and positions, which say nothing where a row holds one example.
    """
    shapes = batch_shapes(len(step.rows), step.source_length, step.target_length)
    batch = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
    for side, tokens in (("source", sources), ("target", targets)):
        _fill(step.rows, tokens, *(batch[side + part] for part in PACKED))
    return {f"{side}{part}": batch[f"{side}{part}"] for side in ("source", "target") for part in parts}


def _fill(rows, tokens: Tokens, ids: np.ndarray, segments: np.ndarray, positions: np.ndarray) -> None:
    width = ids.shape[1]
    arange = np.arange(width, dtype=np.int32)
    for row, examples in enumerate(rows):
        start = 0
        for segment, example in enumerate(examples, start=1):
            sequence = tokens[example]
            stop = min(start + len(sequence), width)
            ids[row, start:stop] = sequence[: stop - start]
            ids[row, stop - 1] = sequence[-1]
            segments[row, start:stop] = segment
            positions[row, start:stop] = arange[: stop - start]
            start = stop


def read_ahead(batch_at: Callable[[int], Batch], start_step: int) -> Iterator[tuple[int, Batch]]:
    """(step, batch) from `start_step` on, without end, read ahead by threads. A mistake in the first is raised here."""
    import grain

    batch_at(start_step)

    def load(step: int) -> tuple[int, Batch]:
        return int(step), batch_at(int(step))

    steps = grain.MapDataset.range(start_step, 2**31 - 1).map(load)
    return iter(steps.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))

"""Turns examples into rows of fixed shapes: one example per row in length buckets, or several packed with segment ids.

A batch is a flat dictionary of int32 arrays: `source` [B S] and `target` [B T], 0 at padding. A packed batch also has
`source_segments`, `source_positions`, `target_segments` and `target_positions`. Segment 0 is padding, and the examples
of a row have segments from 1. Positions count from 0 in each example and are 0 at padding. A target ends with the
end-of-sentence token and has no beginning-of-sentence token.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from attention_research.data import plan
from attention_research.data.protocol import Batch
from attention_research.signatures import Positive

Parts = tuple[str, ...]
#: The lengths to which evaluation pads if training packs rows.
EVALUATION_LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class Tokens(Protocol):
    """The token ids of each example, by index."""

    def __getitem__(self, index: int, /) -> np.ndarray: ...


def _up_to(boundaries: Sequence[int], max_length: int) -> tuple[int, ...]:
    return (*sorted({length for length in boundaries if length < max_length}), max_length)


class Buckets:
    """One example per row, padded to the smallest of a few lengths that fits the source and the target.

    Each length is compiled separately. Boundaries that are not below `max_length` are replaced by `max_length`.
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
        """(source length, target length) of every batch shape in training."""
        return tuple((length, length) for length in self.lengths)

    def plan(self, lengths: np.ndarray, seed: int, batch_size: int) -> plan.Plan:
        """The order of training, without end; lengths [n 2] of source and target."""

        def epoch(number: int) -> plan.Epoch:
            return plan.bucket_epoch(lengths, self.lengths, batch_size, np.random.default_rng([seed, number]))

        return plan.Plan(epoch)

    def evaluation_lengths(self) -> tuple[int, ...]:
        """The lengths to which evaluation pads."""
        return self.lengths


class Packed:
    """Packs several examples into each row, first-fit, with `max_length` source and `max_length` target tokens.

    Segment ids separate the examples of a row, as in Raffel et al. 2020. There is one shape, and so one compilation.
    """

    def __init__(self, *, max_length: Positive):
        self.max_length = max_length
        self.parts = PACKED

    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(source length, target length) of every batch shape in training."""
        return ((self.max_length, self.max_length),)

    def plan(self, lengths: np.ndarray, seed: int, batch_size: int) -> plan.Plan:
        """The order of training, without end; lengths [n 2] of source and target."""
        (shape,) = self.shapes()
        rows = plan.first_fit(lengths, *shape, order=np.random.default_rng([seed]).permutation(len(lengths)))

        def epoch(number: int) -> plan.Epoch:
            return plan.packed_epoch(rows, shape, batch_size, np.random.default_rng([seed, number]))

        return plan.Plan(epoch)

    def evaluation_lengths(self) -> tuple[int, ...]:
        """The lengths to which evaluation pads; evaluation has one example per row."""
        return _up_to(EVALUATION_LENGTHS, self.max_length)


APART, PACKED = ("",), ("", "_segments", "_positions")


def batch_shapes(
    rows: int, source_length: int, target_length: int, parts: Parts = PACKED
) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every array of a batch."""
    lengths = {"source": source_length, "target": target_length}
    return {f"{side}{part}": (rows, lengths[side]) for side in lengths for part in parts}


def assemble(step: plan.Step, sources: Tokens, targets: Tokens, parts: Parts = PACKED) -> dict[str, np.ndarray]:
    """The batch of a step. Examples longer than the row are truncated and keep their last token, the end of sentence.

    `parts` APART leaves out the segments and positions, which are not needed if each row holds one example.
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
    """(step, batch) from `start_step` on, without end; threads read ahead. An error in the first batch is raised
    here."""
    import grain

    batch_at(start_step)

    def load(step: int) -> tuple[int, Batch]:
        return int(step), batch_at(int(step))

    steps = grain.MapDataset.range(start_step, 2**31 - 1).map(load)
    return iter(steps.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))

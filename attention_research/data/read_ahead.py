"""Batches that threads read ahead, in order: for what takes a moment to read, decode or change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attention_research.data.in_memory import Batch


def read_ahead(batch_at: Callable[[int], Batch], start_step: int) -> Iterator[tuple[int, Batch]]:
    """(step, batch) from `start_step` on, without end. A mistake in the first is raised here, not in a thread."""
    import grain

    batch_at(start_step)

    def load(step: int) -> tuple[int, Batch]:
        return int(step), batch_at(int(step))

    steps = grain.MapDataset.range(start_step, 2**31 - 1).map(load)
    return iter(steps.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))

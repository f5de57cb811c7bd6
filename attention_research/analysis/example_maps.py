"""The attention maps of many examples, each cut to its own length, for statistics over a test split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from attention_research.analysis.attention import (
    PLACES,
    Layers,
    are_projections,
    forward_pass,
    layer_weights,
    layers_of,
    of_other_length,
    reads_source_first,
)
from attention_research.errors import RunError
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

#: (part, kind) -> the sequences of its rows and columns. Includes the alignment of a recurrent decoder.
SEQUENCES = {
    place: ("source" if rows == "source" else "target", "source" if columns == "source" else "target")
    for place, (_, rows, columns) in PLACES.items()
}


def every_place(trained: Trained, *, split: str = "test") -> dict[tuple[str, str], Layers]:
    """The places at which a model has attention weights, and their layers."""
    _, batch = next(iter(trained.data.evaluation_batches(split, 1, examples=1)))
    return layers_of(jax.eval_shape(forward_pass(trained.trainer.structure), trained.model(), batch))


def example_maps(
    trained: Trained,
    place: tuple[str, str],
    arrays: tuple[Any, Any] | None = None,
    *,
    split: str = "test",
    examples: int | None = None,
    batch_size: int = 32,
) -> Iterator[tuple[dict[str, np.ndarray], Float[np.ndarray, "L N T S"]]]:
    """Yields (tokens by name, maps) of each example at a place such as ("decoder", "cross_attention").

    Keys that are projections, as in Linformer, are not cut. `arrays` default to the trained parameters and statistics.
    Raises RunError if the model does not have these weights, if they are not between tokens (in a captioning model,
    they are over locations of an image), or if the stack reads the source and then the text.
    """
    arrays = trained.model() if arrays is None else arrays
    collected = forward_pass(trained.trainer.structure)

    @jax.jit
    def maps(arrays: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
        weights = layer_weights(collected(arrays, batch))
        if place not in weights:
            there = ", ".join(" ".join(one) for one in weights) or "none"
            raise RunError(f"this model has no weights of {' '.join(place)}; there are: {there}")
        return weights[place]

    rows, columns = SEQUENCES[place]
    for _, batch in trained.data.evaluation_batches(split, batch_size, examples=examples):
        absent = " and ".join({rows, columns} - batch.keys())
        if absent:
            raise RunError(f"{' '.join(place)}: a batch has no tokens of {absent}")
        found = np.asarray(maps(arrays, batch), np.float32)
        if rows == "target" and reads_source_first(found.shape[3], batch):
            raise RunError(f"{' '.join(place)}: the maps are over the source and the text together")
        others = jax.eval_shape(maps, arrays, of_other_length(batch)).shape[-1]
        are_tokens = not are_projections(found.shape[-1], others, columns, batch)
        lengths = {name: (np.asarray(batch[name]) != PAD).sum(axis=1) for name in {rows, columns}}
        for number in range(found.shape[1]):
            length, width = lengths[rows][number], lengths[columns][number] if are_tokens else found.shape[-1]
            if length and width:
                tokens = {name: np.asarray(batch[name][number][: lengths[name][number]]) for name in lengths}
                yield tokens, found[:, number, :, :length, :width]

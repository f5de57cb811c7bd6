"""The alignment weights [T S] of a recurrent decoder that reads a given translation.

Row t belongs to the step that generates token t after reading the tokens before it (Bahdanau et al. 2015, section
5.2.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from attention_research.analysis import alignments
from attention_research.analysis.alignment_figure import as_map
from attention_research.analysis.by_length import sample
from attention_research.data import generated_translation
from attention_research.layers.structure import initializer
from attention_research.training.evaluation import Trained
from attention_research.training.step import INITIALIZATION

_ROWS, _PAD_TO = 32, 32


def weights_of(
    trained: Trained,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    arrays: tuple[Any, Any] | None = None,
) -> list[Float[np.ndarray, "T S"]]:
    """The weights of each pair of token sequences. `arrays` default to the trained parameters and statistics."""
    arrays = trained.model() if arrays is None else arrays

    @jax.jit
    def weights(arrays: Any, batch: dict[str, jax.Array]) -> jax.Array:
        _, collected = trained.trainer.structure.merge(*arrays).log_likelihood(batch)
        return collected["decoder"]["alignment"]

    longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    order = np.argsort(longest, kind="stable")
    found: list[Any] = [None] * len(order)
    for start in range(0, len(order), _ROWS):
        chosen = order[start : start + _ROWS]
        width = -(-longest[chosen[-1]] // _PAD_TO) * _PAD_TO
        batch = {name: np.zeros((_ROWS, width), np.int32) for name in ("source", "target")}
        for name, sequences in (("source", sources), ("target", targets)):
            batch[name][:, 0] = sequences[chosen[0]][-1]
            for row, i in enumerate(chosen):
                batch[name][row, : len(sequences[i])] = sequences[i]
        given = np.asarray(weights(arrays, batch), np.float64)
        for row, i in enumerate(chosen):
            found[i] = given[row, : len(targets[i]), : len(sources[i])]
    return found


def untrained(trained: Trained) -> tuple[Any, Any]:
    """(parameters, statistics) of the run before the first update, initialized from its seed."""
    key = jax.random.fold_in(jax.random.key(trained.trainer.seeds[0]), INITIALIZATION)
    return jax.jit(initializer(trained.trainer.make_model))(key)


def measure_maps(
    *, workdir: Path, seed: int, count: int = 4, shortest: int = 8, most: int = 13, examples: int | None = None
) -> dict[str, Any]:
    """{"maps"}: the heat maps of `count` test pairs of a trained run, with `shortest` to `most` words on each side.

    The pairs are the first suitable ones of a fixed permutation, so they are not selected by hand. The decoder reads
    the reference, so the words on both axes are those of real sentences.
    """
    del seed, examples
    trained = Trained(workdir)
    sources, references = trained.data.text("test")
    fits = lambda text: shortest <= len(text.split()) <= most
    order = sample(len(sources))
    chosen = [i for i in order if fits(sources[i]) and fits(references[i])][:count]
    encode = trained.data.tokenizer.encode
    read, written = encode([sources[i] for i in chosen]), encode([references[i] for i in chosen])
    weights = weights_of(trained, read, written)
    return {"maps": [as_map(trained.data.tokenizer, *one) for one in zip(read, written, weights, strict=True)]}


def measure_gold(*, workdir: Path, seed: int, examples: int | None = None) -> dict[str, Any]:
    """Compares the alignments of a run on generated translations with the gold alignments.

    Returns the measures of `analysis.alignments.against_gold` for the trained weights, and the alignment error rates of
    untrained weights, of uniform weights and of the diagonal ("aer_untrained", "aer_even", "aer_diagonal").
    "reordered_diagonal" is the recall of the diagonal inside reordered spans. "centre_distance", "centre_even" and
    "centre_diagonal" are the distances, in words, between the centre of a row's weights and the gold word. Undefined
    values are left out, such as those of reordered spans if there are none.
    """
    del seed
    trained = Trained(workdir)
    name = trained.config.resolved["data"]["name"]
    sources, references = trained.data.text("test")
    chosen = sample(len(sources), examples)
    every = generated_translation.gold(name, "test")
    gold = [every[i] for i in chosen]
    encode = trained.data.tokenizer.encode
    pair = encode([sources[i] for i in chosen]), encode([references[i] for i in chosen])
    ours = weights_of(trained, *pair)
    sizes = [(len(target), len(source)) for source, target in zip(*pair, strict=True)]
    rivals = {
        "untrained": weights_of(trained, *pair, untrained(trained)),
        "even": [np.full(size, 1 / size[1]) for size in sizes],
        "diagonal": [diagonal(*size) for size in sizes],
    }
    counted = {name: alignments.against_gold(weights, gold) for name, weights in rivals.items()}
    found = {
        **alignments.against_gold(ours, gold),
        **{f"aer_{name}": numbers["alignment_error_rate"] for name, numbers in counted.items()},
        "reordered_diagonal": counted["diagonal"]["reordered_recall"],
        "centre_distance": centre_distance(ours, gold),
        **{f"centre_{name}": centre_distance(rivals[name], gold) for name in ("even", "diagonal")},
    }
    return {name: value for name, value in found.items() if value is not None and not math.isnan(value)}


def centre_distance(weights: Sequence[np.ndarray], gold: Sequence[Sequence[alignments.Link]]) -> float | None:
    """The mean distance, in source words, between the centre of the weights and the gold links of a target word.

    For target word t, the centre is sum_s s w_ts / sum_s w_ts. It is compared with the mean source position of the gold
    links. The mean is over all target words with a gold link and nonzero weights; None if there are none.

    >>> centre_distance([np.array([[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])], [[(1, 0), (0, 1)]])
    1.0
    """
    distances = []
    for one, links in zip(weights, gold, strict=True):
        for row in {target for _, target in links}:
            total = one[row].sum()
            if total > 0:
                place = np.mean([source for source, target in links if target == row])
                distances.append(abs(one[row] @ np.arange(one.shape[1]) / total - place))
    return float(np.mean(distances)) if distances else None


def diagonal(targets: int, sources: int) -> Float[np.ndarray, "T S"]:
    """Weights on the diagonal: the first words of both sentences are aligned, the last words too, and the positions
    between them linearly."""
    weights = np.zeros((targets, sources))
    places = np.rint(np.arange(targets) * (sources - 1) / max(1, targets - 1)).astype(int)
    weights[np.arange(targets), places] = 1.0
    return weights

"""Where a recurrent decoder looks while it reads a given translation: alignment weights of sentence pairs, [T S] each.

Row t belongs to the step that gives token t, having read the tokens before it (Bahdanau et al. 2015, section 5.2.1).
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
    """The weights of each pair of token sequences, by the trained parameters and statistics or by `arrays`."""
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
    """(parameters, statistics) as the run's seed began with them, before any update."""
    key = jax.random.fold_in(jax.random.key(trained.trainer.seeds[0]), INITIALIZATION)
    return jax.jit(initializer(trained.trainer.make_model))(key)


def measure_maps(
    *, workdir: Path, seed: int, count: int = 4, shortest: int = 8, most: int = 13, examples: int | None = None
) -> dict[str, Any]:
    """ "maps" of a trained run: heat maps of `count` pairs of the test split, of `shortest` to `most` words a side.

    The pairs are the first that fit of one fixed permutation, so that nobody chose the pretty ones; the decoder reads
    the reference, so that the words on both axes are real ones.
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
    """Of a run on generated translations: what `analysis.alignments.against_gold` counts of the trained weights, and
    the alignment error rate of untrained weights, of even ones and of the diagonal ("aer_untrained", "aer_even",
    "aer_diagonal"); "reordered_diagonal" is the diagonal's recall inside reordered spans, and "centre_distance" (with
    "centre_even" and "centre_diagonal") how far, in words, the centre of a row's weights lies from the gold word. What
    the set has no case of (a reordered span where nothing moves) is left out."""
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
    """Mean distance, in source words, of sum_s s w_ts / sum_s w_ts from the mean place of the gold links of target word
    t, over all target words with a link and weights that are not 0; None without one.

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
    """All weight where a target word would stand if both sentences were read at an even pace; the ends go together."""
    weights = np.zeros((targets, sources))
    places = np.rint(np.arange(targets) * (sources - 1) / max(1, targets - 1)).astype(int)
    weights[np.arange(targets), places] = 1.0
    return weights

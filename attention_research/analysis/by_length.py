"""Translation quality by source length, Bahdanau et al. 2015, figure 2: the corpus BLEU of each bucket of lengths.

Lengths count words between spaces, so that all tokenizers have the same buckets. The model translates whole sentences:
sources are not cut to the maximum length of training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.tasks.evaluation import corpus_bleu
from attention_research.training.evaluation import Trained
from attention_research.training.readings import first

#: The minimum number of sentences in a bucket with a score. The BLEU of fewer sentences is not reliable.
LEAST = 20
_ROWS, _PAD_TO = 64, 32


def translate(
    trained: Trained,
    sentences: Sequence[str],
    *,
    longest: int,
    parameters: dict[str, Any] | None = None,
    around: Callable[[Any], Any] = lambda model: model,
) -> list[str]:
    """Translates sentences, in order. Sentences of more than `longest` tokens are truncated.

    `parameters` replace the trained ones, and `around` returns the model for decoding, given the trained model.
    """
    own, statistics = trained.model()
    encoded = [first(ids, longest) for ids in trained.data.read(sentences)]

    @jax.jit
    def decoded(arrays: Any, tokens: jax.Array) -> jax.Array:
        model = around(trained.trainer.structure.merge(*arrays))
        return trained.decoding(model, {"tokens": tokens}, max_length=longest).tokens[:, 0]

    order = np.argsort([len(ids) for ids in encoded], kind="stable")
    texts: list[str] = [""] * len(encoded)
    for start in range(0, len(order), _ROWS):
        chosen = order[start : start + _ROWS]
        width = min(-(-max(len(encoded[i]) for i in chosen) // _PAD_TO) * _PAD_TO, longest)
        tokens = np.zeros((_ROWS, width), np.int32)
        tokens[:, 0] = encoded[chosen[0]][-1]  # rows that only fill the batch have just the end of sentence
        for row, i in enumerate(chosen):
            tokens[row, : len(encoded[i])] = encoded[i]
        best = np.asarray(decoded((own if parameters is None else parameters, statistics), tokens))
        for i, text in zip(chosen, trained.data.tokenizer.decode(best[: len(chosen)].tolist()), strict=True):
            texts[i] = text
    return texts


def sample(size: int, examples: int | None = None) -> list[int]:
    """The first `examples` indices (None: all) of a fixed permutation of `size` sentences."""
    return np.random.default_rng(1409).permutation(size)[:examples].tolist()


def words(sentence: str) -> int:
    """The number of words between spaces."""
    return len(sentence.split())


def by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    edges: Sequence[int],
    *,
    least: int = LEAST,
) -> dict[str, list]:
    """{"bleu", "sentences", "words" (mean length)}, each a list over the buckets edges[i] <= words < edges[i + 1].

    A bucket with fewer than `least` sentences has BLEU None. An empty bucket also has the mean length None.

    >>> by_length(["a b c d e"] * 2, ["a b c d e"] * 2, ["x", "x y z"], (0, 2, 4), least=1)["sentences"]
    [1, 1]
    """
    lengths = np.asarray([words(source) for source in sources])
    found: dict[str, list] = {"bleu": [], "sentences": [], "words": []}
    for low, high in zip(edges, edges[1:], strict=False):
        inside = np.flatnonzero((low <= lengths) & (lengths < high))
        found["sentences"].append(len(inside))
        found["words"].append(float(lengths[inside].mean()) if len(inside) else None)
        enough = len(inside) >= max(least, 1)
        found["bleu"].append(_bleu(hypotheses, references, inside) if enough else None)
    return found


def slope(words: Sequence[float | None], bleu: Sequence[float | None]) -> float | None:
    """The slope in BLEU points per word, by a least-squares line through the buckets with a score. None if there are
    fewer than two."""
    points = [(x, y) for x, y in zip(words, bleu, strict=True) if y is not None]
    if len(points) < 2:
        return None
    x, y = zip(*points, strict=True)
    return float(np.polyfit(x, y, 1)[0])


def measure(
    *,
    workdir: Path,
    seed: int,
    edges: Sequence[int],
    longest: int,
    fitting: int | None = None,
    split: str = "test",
    examples: int | None = None,
) -> dict[str, Any]:
    """Measures a trained run by source length.

    Returns "length_bleu", "length_sentences" and "length_words" by bucket; "length_slope" (BLEU points per word);
    "bleu_shortest" and "bleu_longest", the first and the last bucket with a score; their difference
    "longest_minus_shortest"; and "longest_share", the last bucket divided by the best one. It also returns the BLEU of
    three sets: "bleu_every_length", "bleu_fitting" (source and reference have at most `fitting` tokens; None: the
    maximum length of training) and "bleu_beyond" (all others).

    The sentences are the first `examples` of a fixed permutation of the split (None: all), without those whose source
    has more than `longest` tokens, so that no source is truncated.
    """
    del seed
    trained = Trained(workdir)
    sources, references = trained.data.text(split)
    tokens = [[len(ids) for ids in trained.data.tokenizer.encode(side)] for side in (sources, references)]
    chosen = [i for i in sample(len(sources), examples) if tokens[0][i] <= longest]
    sources, references = [sources[i] for i in chosen], [references[i] for i in chosen]
    fitting = trained.config.resolved["data"]["max_length"] if fitting is None else fitting
    fits = np.asarray([max(side[i] for side in tokens) <= fitting for i in chosen], bool)
    hypotheses = translate(trained, sources, longest=longest)
    found = by_length(hypotheses, references, sources, edges)
    scored = [bleu for bleu in found["bleu"] if bleu is not None]
    numbers: dict[str, Any] = {f"length_{name}": values for name, values in found.items()}
    numbers |= {"length_edges": list(edges), "length_slope": slope(found["words"], found["bleu"])}
    sets = {"every_length": range(len(sources)), "fitting": np.flatnonzero(fits), "beyond": np.flatnonzero(~fits)}
    for name, inside in sets.items():
        numbers[f"bleu_{name}"] = _bleu(hypotheses, references, inside) if len(inside) else None
    numbers["sentences_fitting"] = int(fits.sum())
    if scored:
        numbers |= {
            "bleu_shortest": scored[0],
            "bleu_longest": scored[-1],
            "longest_minus_shortest": scored[-1] - scored[0],
            "longest_share": scored[-1] / max(scored) if max(scored) else None,
        }
    return numbers


def _bleu(hypotheses: Sequence[str], references: Sequence[str], chosen: Any) -> float:
    return corpus_bleu([hypotheses[i] for i in chosen], [references[i] for i in chosen])[0]

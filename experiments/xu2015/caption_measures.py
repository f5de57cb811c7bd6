"""Measurements of captioning models on collages: the objects they name, and where they attend for each word.

Collages give the cell of the object of every word. `measure_strips` returns images with the attention mask of each
generated word. Attention maps are over the grid of features, row by row; a grid position belongs to the cell of the
collage that contains it. Words without an object (cell 0) count only in the distances that attention moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.tokens import EOS


def measure_captions(*, workdir: Path, seed: int, examples: int = 500, **_: Any) -> dict[str, Any]:
    """Measures a trained run on test images.

    Captions: "named" is the share of objects whose three words are correct and in order, and "named_by_objects" the
    same by the number of objects. "words" is the share of correct words, and "words_by_index" the same in tenths of the
    longest text, up to the words in "index".

    Attention, under teacher forcing: "pointing" is the share of object words whose largest weight is in the cell of
    their object, and "mass" the weight in that cell. "uniform" and "centre" are the values for uniform weights and for
    always attending to the middle. "moves" is the mean distance, in cells, between the centres of attention of
    successive words; "moves_within" is within an object, "moves_between" between objects, and "moves_shuffled" for the
    words in another order.
    """
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    model, evaluation = trained.model(), trained.evaluation
    batches = lambda: trained.data.evaluation_batches("test", evaluation.batch_size, examples=examples)
    found = written(trained, trained.translations(model, batches()))
    maps = list(alignments(trained, model, batches()))
    return {**found, **(looked(maps, trained.data.layout.grid) if maps else {})}


# Captions


def objects_of(text: str) -> list[tuple[str, ...]]:
    """Returns the objects that a caption names, in order, each as three words.

    >>> objects_of("a large red seven , a small blue two")
    [('large', 'red', 'seven'), ('small', 'blue', 'two')]
    """
    parts = text.replace(" and ", " , ").split(" , ")
    return [tuple(part.split()[1:]) for part in parts]


def written(trained: Any, texts: dict[int, str]) -> dict[str, Any]:
    """The part of `measure_captions` about captions. `texts` maps image ids to captions."""
    references = trained.data.references("test")
    shares: dict[int, list[float]] = {}
    rights: list[list[bool]] = []
    for picture, text in texts.items():
        wanted, named = objects_of(references[picture][0]), objects_of(text)
        right = [one == other for one, other in zip(wanted, named, strict=False)]
        shares.setdefault(len(wanted), []).append(sum(right) / len(wanted))
        words, ours = references[picture][0].split(), text.split()
        rights.append([place < len(ours) and word == ours[place] for place, word in enumerate(words)])
    by_objects = {str(number): float(np.mean(shares[number])) for number in sorted(shares)}
    longest = max(map(len, rights))
    bounds = np.unique(np.linspace(0, longest, 11).astype(int))
    inside = lambda low, high: [right for row in rights for right in row[low:high]]
    tenths = [inside(low, high) for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    return {
        "named": float(np.mean([share for some in shares.values() for share in some])),
        "named_by_objects": by_objects,
        "words": float(np.mean([right for row in rights for right in row])),
        "words_by_index": [float(np.mean(tenth)) for tenth in tenths],
        "index": [int(bound) for bound in bounds[1:]],
    }


# Attention


def alignments(
    trained: Any, model: Any, batches: Iterator[tuple[np.ndarray, dict]]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Returns (weights [T S], cells [T]) for the correct caption of each image, without padding.

    The list is empty for a decoder without weights.
    """
    merge = trained.trainer.structure.merge
    look = jax.jit(lambda model, batch: weights_of(merge(*model).log_likelihood(batch)[1]["decoder"]))
    for ids, batch in batches:
        weights = jax.device_get(look(model, batch))
        if not weights.any():
            return
        for row in np.flatnonzero(ids >= 0):
            length = int(np.sum(batch["target"][row] != 0)) - 1  # without the end-of-sentence symbol
            yield weights[row, :length], batch["cells"][row, :length]


def weights_of(decoder: dict[str, Any]) -> Any:
    """Returns the weights [B T S] from the intermediates of a decoder.

    They are the alignment of a recurrent decoder, or the attention of a Transformer's last layer over the image,
    averaged over heads.
    """
    if "alignment" in decoder:
        return decoder["alignment"]
    last = decoder[sorted(decoder)[-1]]["cross_attention"]["attention_weights"]
    return last[-1].mean(axis=1)


def places(count: int, grid: int) -> np.ndarray:
    """Returns the cell [S], counted from 1, of each position of a square map.

    >>> places(16, 2).tolist()
    [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]
    """
    side = round(count**0.5)
    along = np.arange(side) * grid // side
    return (along[:, None] * grid + along + 1).reshape(-1)


def looked(maps: Sequence[tuple[np.ndarray, np.ndarray]], grid: int) -> dict[str, float]:
    """The part of `measure_captions` about attention."""
    cell_of = places(maps[0][0].shape[-1], grid)
    middle = grid * (grid // 2) + grid // 2 + 1
    hits, masses, centre, moves, within, between, shuffled = ([] for _ in range(7))
    chance = np.random.default_rng(0)
    for weights, cells in maps:
        told = cells > 0
        hits += (cell_of[weights[told].argmax(axis=1)] == cells[told]).tolist()
        masses += (weights[told] * (cell_of == cells[told][:, None])).sum(axis=1).tolist()
        centre += (cells[told] == middle).tolist()
        centres = gaze(weights, grid)
        far = np.linalg.norm(np.diff(centres, axis=0), axis=1)
        same = (cells[1:] == cells[:-1]) & told[1:]
        moves += far.tolist()
        within += far[same].tolist()
        between += far[~same].tolist()
        shuffled += np.linalg.norm(np.diff(chance.permutation(centres), axis=0), axis=1).tolist()
    mean = lambda values: float(np.mean(values))
    return {
        "pointing": mean(hits), "mass": mean(masses), "uniform": 1 / grid**2, "centre": mean(centre),
        "moves": mean(moves), "moves_within": mean(within), "moves_between": mean(between),
        "moves_shuffled": mean(shuffled),
    }  # fmt: skip


def gaze(weights: np.ndarray, grid: int) -> np.ndarray:
    """Returns the centre of mass [T 2], in cells of the collage, of weights [T S] over a square map.

    >>> gaze(np.eye(4)[:2], 2).tolist()
    [[0.5, 0.5], [0.5, 1.5]]
    """
    side = round(weights.shape[-1] ** 0.5)
    at = (np.indices((side, side)).reshape(2, -1).T + 0.5) * grid / side
    return weights @ at / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)


# Strips


def measure_strips(*, workdir: Path, seed: int, pictures: int = 2, **_: Any) -> dict[str, Any]:
    """Returns "strips" for the first test images: the "image" [Y X C], the "words" that beam search generated, and the
    weights over the map for each word, "masks" [T V U]."""
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    model, merge = trained.model(), trained.trainer.structure.merge
    look = jax.jit(lambda model, batch: weights_of(merge(*model).log_likelihood(batch)[1]["decoder"]))
    _, batch = next(iter(trained.data.evaluation_batches("test", pictures, examples=None)))
    texts = trained.translations(model, iter([(np.arange(pictures), batch)]))
    written = np.zeros_like(batch["target"])
    for row, text in texts.items():
        tokens = trained.data.tokenizer.encode([text])[0][: written.shape[1]]
        written[row, : len(tokens)] = tokens
    weights = np.asarray(look(model, {**batch, "target": jnp.asarray(written)}))
    side = round(weights.shape[-1] ** 0.5)
    strips = []
    for row, text in sorted(texts.items()):
        length = int(np.sum((written[row] != 0) & (written[row] != EOS)))
        masks = weights[row, :length].reshape(length, side, side)
        strips.append({"image": batch["image"][row].tolist(), "words": text.split()[:length],
                       "masks": np.round(masks, 4).tolist()})  # fmt: skip
    return {"strips": strips}

"""What a captioner wrote of one picture, and where it looked for each word: plain NumPy with labels.

The weights are the model's in one teacher-forced pass over the picture and what it wrote of it (Xu et al. 2015,
section 3.1.2; of a Transformer, the attention over the picture of every layer and head).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.errors import RunError
from attention_research.tokens import EOS
from attention_research.training.evaluation import Trained

#: What stands for a token that means no word: a vocabulary may be larger than what it knows.
NO_WORD = "(none)"


@dataclasses.dataclass(frozen=True)
class PictureAttention:
    """``image`` is what the model read, uint8 [Y X C]; ``maps`` are titles and weights [T V U], a map for each of the
    ``words``, over the V x U places of the picture's features; ``facts`` say where they come from."""

    image: np.ndarray
    words: tuple[str, ...]
    maps: tuple[tuple[str, np.ndarray], ...]
    facts: Mapping[str, str]


def read_picture(path: Path, side: int, channels: int) -> np.ndarray:
    """The picture in a file as a model of these sizes reads it. Raises ConfigError where there is none."""
    from attention_research.data import pictures
    from attention_research.data.image_source import resized

    return resized(pictures.read_picture(path, channels, f"--input={path}"), side, channels)


def of_picture(trained: Trained, image: np.ndarray, name: str) -> PictureAttention:
    """Describes the picture as `generate` does, then looks at it; `name` is what the run is called.

    Raises RunError for a model whose decoder has no attention over the picture.
    """
    (tokens,) = trained.captions(image[None])
    merge = trained.trainer.structure.merge
    batch = {"image": jnp.asarray(image[None]), "target": jnp.asarray([tokens], jnp.int32)}
    look = jax.jit(lambda model: merge(*model).log_likelihood(batch)[1]["decoder"])
    length = len(tokens) - (tokens[-1] == EOS)
    maps = tuple((title, _square(weights[:length])) for title, weights in _maps(jax.device_get(look(trained.model()))))
    if not any(weights.any() for _, weights in maps):
        raise RunError("--attention: this model looks nowhere: its decoder has no attention over the picture")
    words = tuple(trained.data.tokenizer.decode([[token]])[0] or NO_WORD for token in tokens[:length])
    facts = {"run": name, "step": f"{trained.step:,}", "places": " x ".join(map(str, maps[0][1].shape[1:]))}
    return PictureAttention(image, words, maps, facts)


def _maps(decoder: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """(title, weights [T S]) of a decoder's aux for the one picture."""
    if "alignment" in decoder:
        yield "attention", np.asarray(decoder["alignment"][0])
        return
    segments = (decoder[name]["cross_attention"]["attention_weights"] for name in sorted(decoder))
    layers = [np.asarray(layer[0]) for segment in segments for layer in segment]
    for number, heads in reversed(list(enumerate(layers, start=1))):
        yield f"layer {number}, mean of its heads", heads.mean(axis=0)
        yield from ((f"layer {number}, head {head}", weights) for head, weights in enumerate(heads, start=1))


def _square(weights: np.ndarray) -> np.ndarray:
    """[T S] over places row by row -> [T V U]."""
    side = round(weights.shape[-1] ** 0.5)
    return weights.reshape(len(weights), side, -1)

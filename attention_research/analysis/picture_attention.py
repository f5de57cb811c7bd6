"""The caption of one image and the attention over the image for each word, as labelled NumPy arrays.

The model computes the weights in one teacher-forced pass over the image and its own caption (Xu et al. 2015, section
3.1.2). For a Transformer, they are the attention over the image in every layer and head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.analysis.attention import layer_weights, layers_of
from attention_research.errors import RunError
from attention_research.tokens import EOS
from attention_research.training.evaluation import Trained

#: The label of a token id without a word. A vocabulary may have more ids than words.
NO_WORD = "(none)"
PLACE = ("decoder", "cross_attention")


@dataclasses.dataclass(frozen=True)
class PictureAttention:
    """The attention over an image.

    ``image`` is the input of the model, uint8 [Y X C]. ``maps`` are pairs of a title and weights [T V U]: for each of
    the T ``words``, the weights over the V x U locations of the image features. ``facts`` describe the run.
    """

    image: np.ndarray
    words: tuple[str, ...]
    maps: tuple[tuple[str, np.ndarray], ...]
    facts: Mapping[str, str]


def read_picture(path: Path, side: int, channels: int) -> np.ndarray:
    """Reads an image file and converts it to the size of the model. Raises ConfigError if there is no image."""
    from attention_research.data import pictures
    from attention_research.data.image_source import resized

    return resized(pictures.read_picture(path, channels, f"--input={path}"), side, channels)


def of_picture(trained: Trained, image: np.ndarray, name: str) -> PictureAttention:
    """Writes a caption as `generate` does and collects the attention. `name` is the name of the run.

    Raises RunError if the decoder of the model does not have attention over the places of the image features, and if
    the caption is empty.
    """
    (tokens,) = trained.captions(image[None])
    merge = trained.trainer.structure.merge
    batch = {"image": jnp.asarray(image[None]), "target": jnp.asarray([tokens], jnp.int32)}
    look = jax.jit(lambda model: merge(*model).log_likelihood(batch)[1]["decoder"])
    length = len(tokens) - (tokens[-1] == EOS)
    grid = jax.eval_shape(lambda model: merge(*model).features(batch["image"])[0], trained.model()).shape[1:3]
    given = _maps(jax.device_get(look(trained.model()))) if _keeps_places(merge(*trained.model())) else ()
    maps = tuple((title, weights.reshape(-1, *grid)) for title, weights in given if weights.shape[1] == np.prod(grid))
    if not any(weights.any() for _, weights in maps):
        raise RunError("--attention: the decoder of this model has no attention over the picture")
    if not length:
        raise RunError("--attention: the model writes an empty caption for this picture, so no word is drawn")
    maps = tuple((title, weights[:length]) for title, weights in maps)
    words = tuple(trained.data.tokenizer.decode([[token]])[0] or NO_WORD for token in tokens[:length])
    facts = {"run": name, "step": f"{trained.step:,}", "places": " x ".join(map(str, maps[0][1].shape[1:]))}
    return PictureAttention(image, words, maps, facts)


def _maps(decoder: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """(title, weights [T S]) of each map in the aux of a decoder for a single image."""
    weights = layer_weights({"decoder": decoder})
    if ("decoder", "alignment") in weights:
        yield "attention", np.asarray(weights["decoder", "alignment"])[0, 0, 0]
        return
    if PLACE not in weights:
        return
    layers = [np.asarray(layer[0]) for layer in weights[PLACE]]
    numbers = layers_of({"decoder": decoder})[PLACE].numbers
    for number, heads in reversed(list(zip(numbers, layers, strict=True))):
        yield f"layer {number}, mean of its heads", heads.mean(axis=0)
        yield from ((f"layer {number}, head {head}", weights) for head, weights in enumerate(heads, start=1))


def _keeps_places(model: Any) -> bool:
    """Whether the decoder attends to the places of the features. It does not if an encoder replaces them by other
    vectors, such as latents."""
    mask = jnp.ones((1, 1, 1, 1), bool)
    return not hasattr(model, "encoder") or model.encoder.memory_mask(mask) is mask

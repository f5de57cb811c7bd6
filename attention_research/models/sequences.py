"""Extracts sequences from a batch, with their positions and attention masks.

A sequence is a dictionary with "tokens" [B T], where 0 is padding. Packed rows also have "segments" [B T] (0 for
padding, otherwise the number of the example from 1) and "positions" [B T] (from 0 within each example). Rows that begin
within a text have "before" [B], the token before the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from attention_research.kernels.masks import padding_mask, segment_mask
from attention_research.tokens import BOS, PAD

Sequence = Mapping[str, Any]


def sequence(batch: Mapping[str, Any], name: str) -> Sequence:
    """The sequence `name` of a batch, such as "source": tokens, and segments, positions and before if there are any.

    >>> sequence({"source": jnp.array([[5, 6, 0]])}, "source")
    {'tokens': Array([[5, 6, 0]], dtype=int32)}
    """
    keys = {"tokens": name, **{key: f"{name}_{key}" for key in ("segments", "positions", "before")}}
    return {key: batch[full] for key, full in keys.items() if full in batch}


def source(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a batch that a model encodes: the image as {"image"}, or the source sequence.

    >>> list(source({"source": jnp.array([[5, 6]]), "target": jnp.array([[7]])}))
    ['tokens']
    """
    return {"image": batch["image"]} if "image" in batch else sequence(batch, "source")


def positions(of: Sequence) -> Int[Array, "#B T"]:
    """The position of each token in its example.

    >>> positions(sequence({"source": jnp.array([[5, 6, 0]])}, "source")).tolist()
    [[0, 1, 2]]
    """
    return of["positions"] if "positions" in of else jnp.arange(of["tokens"].shape[1], dtype=jnp.int32)[None]


def visible(queries: Sequence, keys: Sequence) -> Bool[Array, "B 1 #T S"]:
    """The keys that a query may attend to, without causality: no padding and, in packed rows, only the same example.

    >>> one = sequence({"source": jnp.array([[5, 6, 0]])}, "source")
    >>> visible(one, one)[0, 0].tolist()  # not the padding
    [[True, True, False]]
    """
    if "segments" in keys:
        return segment_mask(queries["segments"], keys["segments"])
    return padding_mask(keys["tokens"] != PAD)


def shift_right(target: Sequence) -> Int[Array, "B T"]:
    """The input of a decoder: BOS at the start of every example, followed by its tokens except the last one. A row that
    begins within a text starts with the token before it.

    >>> shift_right(sequence({"target": jnp.array([[5, 6, 7]])}, "target")).tolist()  # BOS is 1
    [[1, 5, 6]]
    >>> within = {"target": jnp.array([[5, 6, 7]]), "target_before": jnp.array([4])}
    >>> shift_right(sequence(within, "target")).tolist()
    [[4, 5, 6]]
    """
    tokens = target["tokens"]
    shifted = jnp.roll(tokens, 1, axis=1)
    start = target["before"][:, None] if "before" in target else jnp.asarray(BOS, tokens.dtype)
    return jnp.where(positions(target) == 0, start, shifted)

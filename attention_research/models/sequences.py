"""What models read off a batch of tokens: which are not padding, where they stand, which may see which.

A sequence is a dictionary with "tokens" [B T] (0 is padding); packed rows add "segments" [B T] (0 padding, 1.. the
example) and "positions" [B T] (from 0 within each example).
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
    """The part of a flat batch called `name`: "source" -> tokens, and segments and positions where rows are packed."""
    keys = {"tokens": name, "segments": f"{name}_segments", "positions": f"{name}_positions"}
    return {key: batch[full] for key, full in keys.items() if full in batch}


def source(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a model encodes of a batch: its picture, {"image"}, or its source sequence."""
    return {"image": batch["image"]} if "image" in batch else sequence(batch, "source")


def positions(of: Sequence) -> Int[Array, "#B T"]:
    """Where each token stands in its own example."""
    return of["positions"] if "positions" in of else jnp.arange(of["tokens"].shape[1], dtype=jnp.int32)[None]


def visible(queries: Sequence, keys: Sequence) -> Bool[Array, "B 1 #T S"]:
    """Which keys a query may attend to, causality aside: real ones, and of the query's own example in packed rows."""
    if "segments" in keys:
        return segment_mask(queries["segments"], keys["segments"])
    return padding_mask(keys["tokens"] != PAD)


def shift_right(target: Sequence) -> Int[Array, "B T"]:
    """The decoder's input: BOS at the start of every example, then its tokens but the last."""
    tokens = target["tokens"]
    shifted = jnp.roll(tokens, 1, axis=1)
    return jnp.where(positions(target) == 0, jnp.asarray(BOS, tokens.dtype), shifted)

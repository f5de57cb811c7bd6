"""A model of series of numbers: y_t = h_t W + b, where h is the output of a causal network at position t."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.linear import Linear
from attention_research.signatures import Child, Positive, Rate


class SeriesModel(nnx.Module):
    """A model with `values` of the "series" [B T channels] of a batch.

    `outputs` is the number of values at each position, and `network` reads the series. `channels` is the number of
    numbers at each position.
    """

    def __init__(
        self,
        *,
        channels: Positive,
        outputs: Positive = 1,
        width: Positive,
        dropout_rate: Rate = 0.0,
        network: Child["series_network"] = "recurrent",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del dropout_rate  # inherited by the network
        self.channels = channels
        self.network = network(input_width=channels, rngs=rngs)
        self.output = Linear(width, outputs, rngs=rngs)
        initialization()(self, rngs)

    def values(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """(the values at each position, in float32; {"network": its aux}). Without a key, dropout is off."""
        series = batch["series"]
        if series.shape[2] != self.channels:
            raise ValueError(f"channels: the model reads {self.channels} of them; these series have {series.shape[2]}")
        hidden, aux = self.network(series, key=key)
        return self.output(hidden).astype(jnp.float32), {"network": aux}


def split_key(key: Key[Array, ""] | None, number: int) -> tuple[Any, ...]:
    """`number` keys, or None for each without a key.

    >>> split_key(None, 2)
    (None, None)
    """
    return (None,) * number if key is None else tuple(jax.random.split(key, number))

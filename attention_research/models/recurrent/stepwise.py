"""The base class of recurrent decoders. A subclass defines one step; a whole target is a scan over this step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

Arrays = dict[str, Any]


class StepwiseDecoder(nnx.Module):
    """The base class of recurrent decoders.

    A subclass implements `start`, `advance` (the sequential part of a step) and `finish` (the part that can be computed
    for all steps at once). `output_width` is the width of the output, which the vocabulary reads.
    """

    output_width: int
    #: Names of further values [B] of each step that are returned with the alignment.
    reported: tuple[str, ...] = ()

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """{"fixed", "state"} before the first token: the values that all steps read, and the values that each step
        updates."""
        raise NotImplementedError

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """(state, outputs of the step). The outputs are a dictionary of arrays [B ...], with the "alignment" [B S]."""
        raise NotImplementedError

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """The output of the decoder, computed from the inputs and the outputs of all steps [B T ...]."""
        raise NotImplementedError

    def __call__(
        self, x: Float[Array, "B T I"], memory: Mapping[str, Any], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """(output, {"alignment" [B T S], and the `reported` values [B T]}) of a whole target."""
        cache = self.start(memory)
        keys = (None, None) if key is None else jax.random.split(key)
        each = None if keys[0] is None else jax.random.split(keys[0], x.shape[1])

        def body(state: Arrays, step: tuple[Array, Any]) -> tuple[Arrays, Arrays]:
            return self.advance(step[0], cache["fixed"], state, step[1])

        _, given = jax.lax.scan(body, cache["state"], (jnp.swapaxes(x, 0, 1), each))
        given = jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), given)
        return self.finish(x, given, keys[1]), {name: given[name] for name in ("alignment", *self.reported)}

    def step(
        self, x: Float[Array, "B I"], cache: Mapping[str, Arrays]
    ) -> tuple[Float[Array, "B O"], dict[str, Arrays], dict[str, Any]]:
        """(output, cache, {"alignment" [B S]}) of the next position."""
        state, given = self.advance(x, cache["fixed"], cache["state"], None)
        longer = jax.tree.map(lambda a: a[:, None], given)
        hidden = self.finish(x[:, None], longer, None)[:, 0]
        return hidden, {"fixed": cache["fixed"], "state": state}, {"alignment": given["alignment"]}

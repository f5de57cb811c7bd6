"""What recurrent decoders share: one step is the definition, a whole target is a scan of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

Arrays = dict[str, Any]


class StepwiseDecoder(nnx.Module):
    """The base of recurrent decoders. A subclass gives `start`, `advance` (what must be done step by step) and `finish`
    (what can be done for all steps at once); `output_width` is the width of what the vocabulary reads."""

    output_width: int
    #: What steps give beside the alignment that is handed on, [B] each.
    reported: tuple[str, ...] = ()

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """{"fixed", "state"} before the first token: what all steps read, and what each hands on."""
        raise NotImplementedError

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """(state, what the step gives): a dictionary of [B ...] with the "alignment" [B S] in it."""
        raise NotImplementedError

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """What the vocabulary reads, from the inputs and what the steps gave, [B T ...]."""
        raise NotImplementedError

    def __call__(
        self, x: Float[Array, "B T I"], memory: Mapping[str, Any], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """(hidden, {"alignment": [B T S], and what is `reported`, [B T]}) of a whole target."""
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
        """(hidden, cache, {"alignment": [B S]}) of one more position."""
        state, given = self.advance(x, cache["fixed"], cache["state"], None)
        longer = jax.tree.map(lambda a: a[:, None], given)
        hidden = self.finish(x[:, None], longer, None)[:, 0]
        return hidden, {"fixed": cache["fixed"], "state": state}, {"alignment": given["alignment"]}

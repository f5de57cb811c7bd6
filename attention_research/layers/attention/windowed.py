"""Self-attention to the first positions and to recent ones, with a cache of the same size at any length.

A decoding step stores keys and values in a ring of the last positions, behind `num_first` places that keep the first
positions. A variant says what it sees in training, and how long its ring is.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.normalized_heads import NormalizedHeads
from attention_research.layers.attention.where import expect_place


class Windowed(NormalizedHeads):
    """The base class. The cache has `num_first` + `ring` places, or as many as the longest sequence has positions."""

    num_first: int = 0
    ring: int

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache."""
        return super().start(batch, min(length, self.num_first + self.ring), dtype)

    def stored(self, index: Int[Array, ""], places: int) -> tuple[Int[Array, "C"], Bool[Array, "C"]]:
        """(the position in each place once position `index` is stored, whether the place is filled)."""
        place, first = jnp.arange(places, dtype=jnp.int32), self.num_first
        latest = index - (index - place) % max(places - first, 1)
        return jnp.where(place < first, place, latest), jnp.where(place < first, place <= index, latest >= first)

    def seen_from(self, index: Int[Array, ""], positions: Int[Array, "C"]) -> Bool[Array, "C"]:
        """Which of the stored positions the query at `index` sees. By default all."""
        return positions <= index

    def step_where(self, index: Int[Array, ""], positions: Int[Array, "C"]) -> tuple[Array, Array]:
        """The positions of the query and of the stored keys, as the equation counts them."""
        return index, positions

    def prefill(self, *args: Any, **kwargs: Any) -> Any:
        """Not defined: the kinds are refused where a model reads a prompt in one call."""
        raise NotImplementedError("a ring is filled one position at a time")

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Array], index: Int[Array, ""], *,
        shared: nnx.Module | None = None, **given: Any,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:  # fmt: skip
        """Stores position `index` in place of the oldest one, and attends to what is stored."""
        places, first = cache["key"].shape[2], self.num_first
        if places < first + self.ring:
            expect_place(index, places)
        place = jnp.where(index < first, index, first + (index - first) % max(places - first, 1))
        key, value = self.keys_values(x)
        put = lambda kept, new: jax.lax.dynamic_update_slice_in_dim(kept, new.swapaxes(1, 2), place, 2)
        cache = {"key": put(cache["key"], key), "value": put(cache["value"], value)}
        positions, filled = self.stored(index, places)
        visible = (filled & self.seen_from(index, positions))[None, None, None, :]
        offset, counted = self.step_where(index, positions)
        where = Where(visible, offset=offset, places=counted, shared=shared, x=x, **given)
        key, value = cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        context, weights = self.mix(self.queries(x), key, value, where)
        return self.finish(context, where), cache, {"attention_weights": weights}

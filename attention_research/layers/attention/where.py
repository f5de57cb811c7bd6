"""What the hooks of an attention layer get besides queries, keys and values, and the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.signatures import Constructor

Mask = Bool[Array, "#B #N #T #S"]
Queries = Float[Array, "B T N H"]
Keys = Float[Array, "B S K H"]
Values = Float[Array, "B S K Hv"]
Contexts = Float[Array, "B T N Hv"]
Weights = Float[Array, "B N T S"]
Offset = Int[Array, ""] | int
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Where(NamedTuple):
    """The positions of the queries, and the keys that they may attend to.

    Query t is at position offset + t of the key sequence. The offset is a traced value in a decoding step. `shared` is
    the module that the stack owns for this kind of attention. `places` are the positions of the keys, if they are not 0
    to S - 1 (a ring of recent keys). `x` is the input of the queries [B T D], and `states`
    holds the `key_states` of all keys. `depth` is the number of the layer from 0, and `handed` what a lower layer hands
    over, for a class that asks for them (`takes_depth`, `takes_handed`). `length` is the number of positions of the
    cache, in prefill and in a decoding step. `own` is what the prefill or the step of a class gives to its hooks.
    """

    mask: Mask | None = None
    is_causal: bool = False
    offset: Offset = 0
    shared: Any = None
    places: Int[Array, "S"] | None = None
    x: Float[Array, "B T D"] | None = None
    states: Mapping[str, Array] = NOTHING
    depth: Offset = 0
    handed: Mapping[str, Array] = NOTHING
    length: int | None = None
    own: Mapping[str, Array] = NOTHING

    def query_positions(self, length: int) -> Int[Array, "T"]:
        """The positions of the queries."""
        return self.offset + jnp.arange(length, dtype=jnp.int32)

    def key_positions(self, length: int) -> Int[Array, "S"]:
        """The positions of the keys."""
        return 0 + jnp.arange(length, dtype=jnp.int32) if self.places is None else self.places


#: For a class that finishes contexts of its own.
NOWHERE = Where()


def expect_place(index: Int[Array, ""], length: int) -> None:
    """Raises ValueError if a decoding step is beyond a cache of `length` positions: it would replace the last one. In a
    compiled program the index is unknown."""
    if not isinstance(index, jax.core.Tracer) and int(index) >= length:
        raise ValueError(f"position {int(index)}: the cache has {length} positions; start it with a larger length")


def seen_at(
    index: Int[Array, ""], length: int, mask: Bool[Array, "B 1 1 S"] | None = None
) -> Bool[Array, "1 1 1 S"] | Bool[Array, "B 1 1 S"]:
    """The mask of a decoding step: positions 0 to `index` of a cache for `length` positions, where `mask` shows them
    (see `seen_later`). Raises ValueError beyond them (`expect_place`)."""
    expect_place(index, length)
    visible = (jnp.arange(length) <= index)[None, None, None, :]
    return visible if mask is None else visible & mask


def seen_later(mask: Bool[Array, "B 1 #P P"], length: int) -> Bool[Array, "B 1 1 S"]:
    """The positions of a cache that steps after a prompt see. A key that `mask` hides from all positions of the prompt
    is hidden from all later positions too."""
    none, rest = (0, 0), (0, length - mask.shape[-1])
    return jnp.pad(mask.any(axis=2, keepdims=True), (none, none, none, rest), constant_values=True)


def weights_of(attend: Callable[[Values], Contexts], key: Keys, dtype: Any) -> Weights:
    """The weights of an attention whose output is linear in the values: it is applied to the rows of the identity.

    Under jit, this runs only if the caller uses the weights.
    """
    (B, S, K), identity = key.shape[:3], jnp.eye(key.shape[1], dtype=dtype)
    return attend(jnp.broadcast_to(identity[None, :, None], (B, S, K, S))).swapaxes(1, 2)


def owned_by_stack(attention: Constructor, rngs: nnx.Rngs) -> nnx.Module | None:
    """The module that all layers of a stack share (T5's bias table, Linformer's layerwise projection), or None."""
    make = getattr(attention.target, "owned_by_stack", None)
    return None if make is None else make(**attention.settings, rngs=rngs)


def keys_alone(where: Where, name: str) -> Bool[Array, "#B S"] | None:
    """The non-padding keys [B S] of a key mask [B 1 1 S].

    Mechanisms that mix keys before a query sees them can apply only such masks. Raises ValueError for causal attention
    and for a mask of any other shape.
    """
    if where.is_causal:
        raise ValueError(f"{name} takes only a key mask [B 1 1 S], not a causal mask")
    if where.mask is not None and where.mask.shape[1:3] != (1, 1):
        raise ValueError(f"{name} takes only a key mask [B 1 1 S], not {list(where.mask.shape)}")
    return None if where.mask is None else where.mask[:, 0, 0, :]

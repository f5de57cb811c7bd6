"""Multi-head attention, Vaswani et al. 2017, section 3.2.2: what every variant shares, projections and cache.

A variant subclasses `MultiHeadAttention` and gives `mix`: how queries, keys and values of all heads become contexts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.layers.linear import Linear
from attention_research.registry import Constructor, Positive

Mask = Bool[Array, "#B #N #T #S"]


def owned_by_stack(attention: Constructor, rngs: nnx.Rngs) -> nnx.Module | None:
    """What all layers of a stack share for this kind (T5's bias table, Linformer's layerwise projection), or None."""
    make = getattr(attention.target, "owned_by_stack", None)
    return None if make is None else make(**attention.settings, rngs=rngs)


def keys_alone(mask: Mask | None, is_causal: bool, name: str) -> Bool[Array, "#B S"] | None:
    """The real keys in a [B 1 1 S] mask, for a mechanism that mixes the keys before a query sees them and so can honour
    no other; raises ValueError for a causal one and any other."""
    if is_causal:
        raise ValueError(f"{name} takes a mask of keys [B 1 1 S] only, not a causal one")
    if mask is not None and mask.shape[1:3] != (1, 1):
        raise ValueError(f"{name} takes a mask of keys [B 1 1 S] only, not {list(mask.shape)}")
    return None if mask is None else mask[:, 0, 0, :]


class MultiHeadAttention(nnx.Module):
    """N heads of width H (values Hv) between projections [D, N*H], [D, N*Hv] and an output projection [N*Hv, D].

    `head_width` None means width / num_heads; `value_head_width` None means head_width. Calls return (y, aux) with the
    weights in ``aux["attention_weights"]`` [B N T S]: under jit they are computed only where somebody keeps them.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        self.num_heads = num_heads
        self.head_width = width // num_heads if head_width is None else head_width
        self.value_head_width = self.head_width if value_head_width is None else value_head_width
        self.query = Linear(width, num_heads * self.head_width, use_bias=use_bias, rngs=rngs)
        self.key = Linear(width, num_heads * self.head_width, use_bias=use_bias, rngs=rngs)
        self.value = Linear(width, num_heads * self.value_head_width, use_bias=use_bias, rngs=rngs)
        self.output = Linear(num_heads * self.value_head_width, width, use_bias=use_bias, rngs=rngs)

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Mask | None,
        is_causal: bool,
        offset: Int[Array, ""] | int,
        shared: Any,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """(context, weights); query t stands at position offset + t of the keys' sequence. The variant's equation."""
        raise NotImplementedError

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"] | None = None,
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Self-attention of x, or cross-attention of x over `memory`."""
        context, weights = self.mix(
            self.queries(x), *self.keys_values(x if memory is None else memory),
            mask=mask, is_causal=is_causal, offset=0, shared=shared,
        )  # fmt: skip
        return self.project_out(context), {"attention_weights": weights}

    def queries(self, x: Float[Array, "B T D"]) -> Float[Array, "B T N H"]:
        """The projected queries, split in heads."""
        return self.query(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def keys_values(self, x: Float[Array, "B S D"]) -> tuple[Float[Array, "B S N H"], Float[Array, "B S N Hv"]]:
        """The projected keys and values, split in heads."""
        shape = (*x.shape[:2], self.num_heads)
        return self.key(x).reshape(*shape, self.head_width), self.value(x).reshape(*shape, self.value_head_width)

    def project_out(self, context: Float[Array, "B T N Hv"]) -> Float[Array, "B T D"]:
        """Heads side by side through the output projection."""
        return self.output(context.reshape(*context.shape[:2], -1))

    # Decoding: a cache of the keys and values so far (self-attention) ...
    # Heads before positions, [B N S H]: a step's products read it as it lies, where [B S N H] would be transposed whole
    # at every step (4.9 against 1.0 ms a layer for 256 rows of 64 positions, 4 heads of 32, on one core).

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache for `length` positions."""
        return {
            "key": jnp.zeros((batch, self.num_heads, length, self.head_width), dtype),
            "value": jnp.zeros((batch, self.num_heads, length, self.value_head_width), dtype),
        }

    def prefill(
        self,
        x: Float[Array, "B P D"],
        length: int,
        *,
        mask: Bool[Array, "B 1 #P P"],
        is_causal: bool,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B P D"], dict[str, Array]]:
        """The first P positions at once: (y, the cache for `length` positions). A key that `mask` hides from all of
        them is hidden from every later position too."""
        key, value = self.keys_values(x)
        where: dict[str, Any] = {"mask": mask, "is_causal": is_causal, "offset": 0, "shared": shared}
        context, _ = self.mix(self.queries(x), key, value, **where)
        none, rest = (0, 0), (0, length - x.shape[1])
        longer = lambda states: jnp.pad(states.swapaxes(1, 2), (none, none, rest, none))
        seen = jnp.pad(mask.any(axis=2, keepdims=True), (none, none, none, rest), constant_values=True)
        return self.project_out(context), {"key": longer(key), "value": longer(value), "mask": seen}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Position `index`: writes its key and value, attends to positions 0..index. Returns (y, cache, aux)."""
        key, value = self.keys_values(x)
        cache = {
            **cache,
            "key": jax.lax.dynamic_update_slice_in_dim(cache["key"], key.swapaxes(1, 2), index, 2),
            "value": jax.lax.dynamic_update_slice_in_dim(cache["value"], value.swapaxes(1, 2), index, 2),
        }
        visible = (jnp.arange(cache["key"].shape[2]) <= index)[None, None, None, :]
        visible = visible & cache["mask"] if "mask" in cache else visible
        context, weights = self.mix(
            self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2),
            mask=visible, is_causal=False, offset=index, shared=shared,
        )  # fmt: skip
        return self.project_out(context), cache, {"attention_weights": weights}

    # ... and the memory's keys and values, computed once (cross-attention).

    def remember(
        self, memory: Float[Array, "B S D"], *, mask: Mask | None, shared: nnx.Module | None = None
    ) -> dict[str, Array]:
        """What `recall` needs of the memory: here its keys and values, [B N S H], and mask."""
        del shared
        key, value = self.keys_values(memory)
        mask = jnp.ones((memory.shape[0], 1, 1, memory.shape[1]), bool) if mask is None else mask
        return {"key": key.swapaxes(1, 2), "value": value.swapaxes(1, 2), "mask": mask}

    def recall(
        self, x: Float[Array, "B T D"], remembered: dict[str, Array], *, shared: nnx.Module | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Cross-attention over what `remember` kept; equals the call on the memory itself."""
        context, weights = self.mix(
            self.queries(x), remembered["key"].swapaxes(1, 2), remembered["value"].swapaxes(1, 2),
            mask=remembered["mask"], is_causal=False, offset=0, shared=shared,
        )  # fmt: skip
        return self.project_out(context), {"attention_weights": weights}

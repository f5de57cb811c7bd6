"""Multi-head attention, Vaswani et al. 2017, section 3.2.2: the projections and the cache that all variants share.

`MultiHeadAttention` computes softmax(Q K^T scale + bias) V. A variant subclasses it and overrides some of its hooks:

    prepare        transforms the projected queries, keys and values (rotary positions)
    bias           is added to the scores, [B N T S]; distance_bias: the same by distance, [N T+S-1] (ALiBi, T5)
    mix            computes the whole equation if it is not a softmax of biased dot products (Linformer, relative)
    finish         maps the contexts of the heads to the output (branches instead of one projection)

All hooks except `finish` take a `Where`. A constructor names its own settings and passes the others on as
``**inherited`` (`config.schema`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels import attention_weights, dot_product_attention
from attention_research.layers.linear import Linear
from attention_research.signatures import Constructor, Positive

Mask = Bool[Array, "#B #N #T #S"]
Queries = Float[Array, "B T N H"]
Keys = Float[Array, "B S N H"]
Values = Float[Array, "B S N Hv"]
Contexts = Float[Array, "B T N Hv"]
Weights = Float[Array, "B N T S"]
Offset = Int[Array, ""] | int


class Where(NamedTuple):
    """The positions of the queries, and the keys that they may attend to.

    Query t is at position offset + t of the key sequence. The offset is a traced value in a decoding step. `shared` is
    the module that the stack owns for this kind of attention.
    """

    mask: Mask | None = None
    is_causal: bool = False
    offset: Offset = 0
    shared: Any = None


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


class MultiHeadAttention(nnx.Module):
    """N heads of width H (values Hv) between projections [D, N*H], [D, N*Hv] and an output projection [N*Hv, D].

    `head_width` None means width / num_heads. `value_head_width` is the width of the values; None means head_width.
    Calls return (y, aux) with the weights in ``aux["attention_weights"]`` [B N T S]. Under jit, the weights are
    computed only if the caller uses them.
    """

    #: The factor of the scores; None means 1/sqrt(H).
    scale: float | None = None
    #: None lets the kernel choose (`kernels.explain_implementation` shows its choice).
    implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None
    #: False if the queries are also the keys.
    projects_keys = True

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
        if self.projects_keys:
            self.key = Linear(width, num_heads * self.head_width, use_bias=use_bias, rngs=rngs)
        self.value = Linear(width, num_heads * self.value_head_width, use_bias=use_bias, rngs=rngs)
        self.output = Linear(num_heads * self.value_head_width, width, use_bias=use_bias, rngs=rngs)

    def bias(self, query: Queries, key: Keys, where: Where) -> Float[Array, "#B #N #T #S"] | None:
        """The bias of the scores, computed from the projected queries and keys."""
        return None

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "#N L"] | None:
        """A bias that depends only on the distance, [N T+S-1] (`kernels.dot_product_attention`)."""
        return None

    def prepare(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Queries, Keys, Values]:
        """Transforms the projected queries, keys and values. A cache holds keys and values before this step."""
        return query, key, value

    def mix(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Contexts, Weights]:
        """The equation of the variant. Returns (context, weights)."""
        options: dict[str, Any] = {
            "bias": self.bias(query, key, where),
            "distance_bias": self.distance_bias(query.shape[1], key.shape[1], where),
            "mask": where.mask, "is_causal": where.is_causal, "scale": self.scale,
        }  # fmt: skip
        query, key, value = self.prepare(query, key, value, where)
        context = dot_product_attention(query, key, value, **options, implementation=self.implementation)
        return context, attention_weights(query, key, **options)

    def finish(self, context: Contexts) -> Float[Array, "B T D"]:
        """Concatenates the heads and applies the output projection."""
        return self.output(context.reshape(*context.shape[:2], -1))

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
        query, (key, value) = self.queries(x), self.keys_values(x if memory is None else memory)
        context, weights = self.mix(query, key, value, Where(mask, is_causal, shared=shared))
        return self.finish(context), {"attention_weights": weights}

    def queries(self, x: Float[Array, "B T D"]) -> Float[Array, "B T N H"]:
        """The projected queries, split into heads."""
        return self.query(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def keys_values(self, x: Float[Array, "B S D"]) -> tuple[Float[Array, "B S N H"], Float[Array, "B S N Hv"]]:
        """The projected keys and values, split into heads."""
        shape = (*x.shape[:2], self.num_heads)
        return self.key(x).reshape(*shape, self.head_width), self.value(x).reshape(*shape, self.value_head_width)

    # Decoding with self-attention: a cache of the keys and values so far.
    # The layout [B N S H] is the one that the products of a step read. A cache [B S N H] would be transposed at every
    # step (4.9 instead of 1.0 ms per layer for 256 rows of 64 positions and 4 heads of 32, on one core).

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
        """Processes the first P positions in one call. Returns (y, the cache for `length` positions).

        A key that `mask` hides from all P positions is hidden from all later positions too.
        """
        key, value = self.keys_values(x)
        context, _ = self.mix(self.queries(x), key, value, Where(mask, is_causal, shared=shared))
        none, rest = (0, 0), (0, length - x.shape[1])
        longer = lambda states: jnp.pad(states.swapaxes(1, 2), (none, none, rest, none))
        seen = jnp.pad(mask.any(axis=2, keepdims=True), (none, none, none, rest), constant_values=True)
        return self.finish(context), {"key": longer(key), "value": longer(value), "mask": seen}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes position `index`: caches its key and value, and attends to positions 0 to index.

        Returns (y, cache, aux).
        """
        key, value = self.keys_values(x)
        cache = {
            **cache,
            "key": jax.lax.dynamic_update_slice_in_dim(cache["key"], key.swapaxes(1, 2), index, 2),
            "value": jax.lax.dynamic_update_slice_in_dim(cache["value"], value.swapaxes(1, 2), index, 2),
        }
        visible = (jnp.arange(cache["key"].shape[2]) <= index)[None, None, None, :]
        visible = visible & cache["mask"] if "mask" in cache else visible
        query, key, value = self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        context, weights = self.mix(query, key, value, Where(visible, offset=index, shared=shared))
        return self.finish(context), cache, {"attention_weights": weights}

    # Decoding with cross-attention: the keys and values of the memory, computed once.

    def cache_memory(
        self, memory: Float[Array, "B S D"], *, mask: Mask | None, shared: nnx.Module | None = None
    ) -> dict[str, Array]:
        """The arrays that `attend_cached` needs of the memory: here its keys and values, [B N S H], and the mask."""
        del shared
        key, value = self.keys_values(memory)
        mask = jnp.ones((memory.shape[0], 1, 1, memory.shape[1]), bool) if mask is None else mask
        return {"key": key.swapaxes(1, 2), "value": value.swapaxes(1, 2), "mask": mask}

    def attend_cached(
        self, x: Float[Array, "B T D"], cache: dict[str, Array], *, shared: nnx.Module | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Cross-attention over the result of `cache_memory`. It equals a call with the memory itself."""
        query, key, value = self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        context, weights = self.mix(query, key, value, Where(cache["mask"], shared=shared))
        return self.finish(context), {"attention_weights": weights}

"""Multi-head attention, Vaswani et al. 2017, section 3.2.2: the projections and the cache that all variants share.

`MultiHeadAttention` computes softmax(Q K^T scale + bias) V. A variant subclasses it and overrides some of its hooks:

    prepare        transforms the projected queries, keys and values (rotary positions)
    bias           is added to the scores, [B N T S]; distance_bias: the same by distance, [N T+S-1] (ALiBi, T5)
    visible        hides keys in addition to the mask, [B N T S] (chosen blocks)
    options        further arguments of `dot_product_attention` (a window, a sink, a soft cap)
    weigh          maps the scores to weights, in place of the softmax (sigmoid, entmax)
    mix            computes the whole equation if it is not a sum of values with such weights (Linformer, relative)
    finish         maps the contexts of the heads to the output (branches instead of one projection, an output gate)

`key_states` are values per key that a variant caches besides keys and values (forget gates). Hooks call `super()`, so
that a class with two variants as its bases combines them. They take a `Where`. A constructor names its own settings and
passes the others on as ``**inherited`` (`config.schema`).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.errors import ConfigError
from attention_research.kernels import attention_weights, dot_product_attention
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.attention.refusals import Refused
from attention_research.kernels.masks import combine_masks
from attention_research.kernels.variants.row_blocks import attend_by_rows
from attention_research.layers.attention.where import (
    NOWHERE,
    Contexts,
    Keys,
    Mask,
    Offset,
    Queries,
    Values,
    Weights,
    Where,
    keys_alone,
    owned_by_stack,
    seen_at,
    seen_later,
    weights_of,
)
from attention_research.layers.linear import Linear
from attention_research.signatures import ConfigPath, Positive

__all__ = [
    "NOWHERE", "Contexts", "Keys", "Mask", "MultiHeadAttention", "Offset", "Queries", "Values", "Weights", "Where",
    "keys_alone", "owned_by_stack", "seen_at", "seen_later", "weights_of",
]  # fmt: skip

#: The number of queries whose scores are in memory at a time, for variants with their own `weigh`.
ROWS = 512


class MultiHeadAttention(nnx.Module):
    """N heads of width H (values Hv) between projections [D, N*H], [D, N*Hv] and an output projection [N*Hv, D].

    `head_width` None means width / num_heads. `value_head_width` is the width of the values; None means head_width.
    With `num_key_value_heads` K, a divisor of N, the keys and values have K heads, each for N / K consecutive query
    heads: grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245), or multi-query attention (Shazeer 2019) if
    K is 1. None means N. Calls return (y, aux) with the weights in ``aux["attention_weights"]`` [B N T S]. Under jit,
    the weights are computed only if the caller uses them.
    """

    #: (The number of values that a layer caches for S positions, the exponent of the time in the length). The names
    #: are those of `config.catalogue`.
    cost: tuple[str | None, float] = ("S*K*(H + Hv)", 2)
    #: The factor of the scores; None means 1/sqrt(H).
    scale: float | None = None
    #: None lets the kernel choose (`kernels.explain_implementation` shows its choice).
    implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None
    #: The path of the section in the config, which `signatures.Constructor` sets.
    config_path = ConfigPath()
    #: The projections besides the output.
    projected: tuple[str, ...] = ("query", "key", "value")
    #: Whether calls, steps and caches need the number of the layer.
    takes_depth = False
    #: Whether a step of cross-attention needs the position of its query, as `offset`.
    takes_offset = False
    #: Whether calls and steps need what a lower layer hands over in ``aux["handed"]``.
    takes_handed = False

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        num_key_value_heads: Positive | None = None,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        self.num_heads = num_heads
        self.num_key_value_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        if num_heads % self.num_key_value_heads:
            raise ConfigError(f"num_key_value_heads: expected a divisor of num_heads {num_heads}, "
                              f"got {num_key_value_heads}")  # fmt: skip
        self.head_width = width // num_heads if head_width is None else head_width
        self.value_head_width = self.head_width if value_head_width is None else value_head_width
        if "query" in self.projected:
            self.query = Linear(width, num_heads * self.head_width, use_bias=use_bias, rngs=rngs)
        if "key" in self.projected:
            self.key = Linear(width, self.num_key_value_heads * self.head_width, use_bias=use_bias, rngs=rngs)
        if "value" in self.projected:
            self.value = Linear(width, self.num_key_value_heads * self.value_head_width, use_bias=use_bias, rngs=rngs)
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

    def visible(self, query: Queries, key: Keys, where: Where) -> Mask | None:
        """The keys that the variant shows to each query, from the prepared queries and keys. None means all."""
        return None

    def options(self, where: Where) -> dict[str, Any]:
        """Further arguments of `kernels.dot_product_attention`, for a variant that it computes."""
        return {}

    def weigh(self, scores: Float[Array, "B N t S"], visible: Mask | None) -> Float[Array, "B N t S"]:
        """The weights of scaled scores in float32, 0 at keys that are not visible. By default their softmax.

        A variant that overrides it gets blocks of consecutive queries (`kernels.variants.row_blocks`).
        """
        raise NotImplementedError("the softmax is part of `dot_product_attention`")

    def mix(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Contexts, Weights]:
        """The equation of the variant. Returns (context, weights)."""
        options: dict[str, Any] = {
            "bias": self.bias(query, key, where),
            "distance_bias": self.distance_bias(query.shape[1], key.shape[1], where),
            "is_causal": where.is_causal, "scale": self.scale, **self.options(where),
        }  # fmt: skip
        query, key, value = self.prepare(query, key, value, where)
        options["mask"] = combine_masks(where.mask, self.visible(query, key, where))
        if type(self).weigh is MultiHeadAttention.weigh:
            try:
                context = dot_product_attention(query, key, value, **options, implementation=self.implementation)
            except Refused as error:
                raise ConfigError(self.config_path.of(str(error))) from error
            return context, attention_weights(query, key, **options)
        if (by_distance := options.pop("distance_bias")) is not None:
            bias = dense(by_distance, query.shape[1])
            options["bias"] = bias if options["bias"] is None else options["bias"] + bias

        def attend(value: Values) -> Contexts:
            rows: dict[str, Any] = {"local_window_size": None, "block_size": ROWS, **options}
            return attend_by_rows(query, key, value, weigh=self.weigh, **rows)

        return attend(value), weights_of(attend, key, value.dtype)

    def finish(self, context: Contexts, where: Where = NOWHERE) -> Float[Array, "B T D"]:
        """Concatenates the heads and applies the output projection."""
        return self.output(context.reshape(*context.shape[:2], -1))

    def hand_over(self, key: Keys, value: Values) -> dict[str, Array]:
        """What the layer hands to the layers above, from its keys and values. They get it as `Where.handed`."""
        return {}

    def _aux(self, key: Array, value: Array, weights: Array) -> dict[str, Any]:
        handed = self.hand_over(key, value)
        return {"attention_weights": weights, **({"handed": handed} if handed else {})}

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"] | None = None,
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
        **given: Any,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Self-attention of x, or cross-attention of x over `memory`. `given` are further fields of `Where`."""
        keys_of = x if memory is None else memory
        query, (key, value) = self.queries(x), self.keys_values(keys_of)
        where = Where(mask, is_causal, shared=shared, x=x, states=self.key_states(keys_of), **given)
        context, weights = self.mix(query, key, value, where)
        return self.finish(context, where), self._aux(key, value, weights)

    def queries(self, x: Float[Array, "B T D"]) -> Float[Array, "B T N H"]:
        """The projected queries, split into heads."""
        return self.query(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def keys_values(self, x: Float[Array, "B S D"]) -> tuple[Float[Array, "B S K H"], Float[Array, "B S K Hv"]]:
        """The projected keys and values, split into heads."""
        shape = (*x.shape[:2], self.num_key_value_heads)
        return self.key(x).reshape(*shape, self.head_width), self.value(x).reshape(*shape, self.value_head_width)

    def key_states(self, x: Float[Array, "B S D"]) -> dict[str, Float[Array, "B S ..."]]:
        """Further values of each key, which are cached with it."""
        return {}

    # Decoding with self-attention: a cache of the keys and values so far.
    # The layout [B K S H] is the one that the products of a step read. A cache [B S K H] would be transposed at every
    # step (4.9 instead of 1.0 ms per layer for 256 rows of 64 positions and 4 heads of 32, on one core).

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache for `length` positions."""
        inputs = jax.ShapeDtypeStruct((batch, length, self.query.kernel[...].shape[0]), dtype)
        states = jax.eval_shape(self.key_states, inputs)
        return {
            "key": jnp.zeros((batch, self.num_key_value_heads, length, self.head_width), dtype),
            "value": jnp.zeros((batch, self.num_key_value_heads, length, self.value_head_width), dtype),
            **{name: jnp.zeros(state.shape, state.dtype) for name, state in states.items()},
        }

    def prefill(
        self,
        x: Float[Array, "B P D"],
        length: int,
        *,
        mask: Bool[Array, "B 1 #P P"],
        is_causal: bool,
        shared: nnx.Module | None = None,
        **given: Any,
    ) -> tuple[Float[Array, "B P D"], dict[str, Array], dict[str, Any]]:
        """Processes the first P positions in one call. Returns (y, the cache for `length` positions, aux).

        A key that `mask` hides from all P positions is hidden from all later positions too.
        """
        (key, value), states = self.keys_values(x), self.key_states(x)
        where = Where(mask, is_causal, shared=shared, x=x, states=states, length=length, **given)
        context, weights = self.mix(self.queries(x), key, value, where)
        none, rest = (0, 0), (0, length - x.shape[1])
        longer = lambda states: jnp.pad(states.swapaxes(1, 2), (none, none, rest, none))
        states = {name: jnp.pad(state, (none, rest, *[none] * (state.ndim - 2))) for name, state in states.items()}
        cache = {"key": longer(key), "value": longer(value), "mask": seen_later(mask, length), **states}
        return self.finish(context, where), cache, self._aux(key, value, weights)

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
        **given: Any,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes position `index`: caches its key and value, and attends to positions 0 to index.

        Returns (y, cache, aux). Raises ValueError beyond the cache (`where.expect_place`).
        """
        (key, value), states = self.keys_values(x), self.key_states(x)
        cache = {
            **cache,
            "key": jax.lax.dynamic_update_slice_in_dim(cache["key"], key.swapaxes(1, 2), index, 2),
            "value": jax.lax.dynamic_update_slice_in_dim(cache["value"], value.swapaxes(1, 2), index, 2),
            **{
                name: jax.lax.dynamic_update_slice_in_dim(cache[name], state, index, 1)
                for name, state in states.items()
            },
        }
        length = cache["key"].shape[2]
        visible = seen_at(index, length, cache.get("mask"))
        query, key, value = self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        kept = {name: cache[name] for name in states}
        where = Where(visible, offset=index, shared=shared, x=x, states=kept, length=length, **given)
        context, weights = self.mix(query, key, value, where)
        return self.finish(context, where), cache, self._aux(key, value, weights)

    # Decoding with cross-attention: the keys and values of the memory, computed once.

    def cache_memory(
        self, memory: Float[Array, "B S D"], *, mask: Mask | None, shared: nnx.Module | None = None
    ) -> dict[str, Array]:
        """The arrays that `attend_cached` needs of the memory: here its keys and values, [B K S H], and the mask."""
        del shared
        key, value = self.keys_values(memory)
        mask = jnp.ones((memory.shape[0], 1, 1, memory.shape[1]), bool) if mask is None else mask
        return {"key": key.swapaxes(1, 2), "value": value.swapaxes(1, 2), "mask": mask, **self.key_states(memory)}

    def attend_cached(
        self, x: Float[Array, "B T D"], cache: dict[str, Array], *, shared: nnx.Module | None = None, **given: Any
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Cross-attention over the result of `cache_memory`. It equals a call with the memory itself."""
        query, key, value = self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        states = {name: state for name, state in cache.items() if name not in ("key", "value", "mask")}
        where = Where(cache["mask"], shared=shared, x=x, states=states, **given)
        context, weights = self.mix(query, key, value, where)
        return self.finish(context, where), {"attention_weights": weights}

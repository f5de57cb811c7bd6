"""Dot-product attention with other weights than a softmax, or with steps before and after the softmax."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from attention_research.kernels import dot_product_attention
from attention_research.kernels.variants import (
    entmax15_attention,
    entmax_attention,
    forgetting_attention,
    indexed_attention,
    length_scaled_attention,
    moba_attention,
    multi_token_attention,
    native_sparse_attention,
    path_attention,
    position_scaled_attention,
    reflected_keys,
    selective_attention,
    selective_bias,
    sparsemax_attention,
    stick_breaking_attention,
    talking_heads_attention,
    tensor_product_attention,
    without_own_value,
)
from tests.catalogue.mechanism import Mechanism
from tests.catalogue.stepping import by_steps


def _selected(query: Array, key: Array, value: Array, mask: Array) -> Array:
    """One query at a time, with the sums of the selections so far as the state."""

    def step(sums: Array, i: Array) -> tuple[Array, Array]:
        now = lax.dynamic_slice_in_dim(query, i, 1, axis=1)
        context = selective_attention(now, key, value, mask, sums, query_offset=i)
        return selective_bias(now, key, mask, sums, query_offset=i).sums, context[:, 0]

    start = jnp.zeros(key.shape[:2], jnp.float32)
    _, outputs = lax.scan(step, start, jnp.arange(query.shape[1], dtype=jnp.int32))
    return jnp.moveaxis(outputs, 0, 1)


def _reflected(query: Array, key: Array, value: Array, direction: Array, beta: Array, mask: Array, **_: int) -> Array:
    """One token at a time: it reflects the cached keys, its own key is added, and its query attends to them."""

    def step(keys: Array, i: Array) -> tuple[Array, Array]:
        now = lambda x: lax.dynamic_slice_in_dim(x, i, 1, axis=1)
        keys = reflected_keys(keys, now(direction)[:, 0], now(beta)[:, 0])
        keys = lax.dynamic_update_slice_in_dim(keys, now(key), i, axis=1)
        context = dot_product_attention(now(query), keys, value, mask=mask, is_causal=True, query_offset=i)
        return keys, context[:, 0]

    _, outputs = lax.scan(step, jnp.zeros_like(key), jnp.arange(query.shape[1], dtype=jnp.int32))
    return jnp.moveaxis(outputs, 0, 1)


def _last_queries(query: Array, logit_kernel: Array, weight_kernel: Array, **inputs: Array) -> Array:
    """One query at a time, with the earlier queries that the kernels reach."""
    reach = logit_kernel.shape[1] + weight_kernel.shape[1] - 1
    padded = jnp.pad(query, [(0, 0), (reach - 1, 0), (0, 0), (0, 0)])

    def step(i: Array) -> Array:
        last = lax.dynamic_slice_in_dim(padded, i, reach, axis=1)
        kernels = {"logit_kernel": logit_kernel, "weight_kernel": weight_kernel}
        return multi_token_attention(last, **kernels, **inputs, query_offset=i - reach + 1)[:, -1]

    return jnp.moveaxis(lax.map(step, jnp.arange(query.shape[1], dtype=jnp.int32)), 0, 1)


def _unit(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = random.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _own_values(context: Array, value: Array) -> Array:
    rows = [without_own_value(context[:, i : i + 1], value[:, i : i + 1]) for i in range(context.shape[1])]
    return jnp.concatenate(rows, axis=1)


def _gates(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.log(random.random(shape) * 0.9 + 0.05)


_SIZES = {"N": 6, "K": 3, "Hv": 7}
_SET = partial(Mechanism, without="query_offset", sizes=_SIZES, permutable=("T", "S"))
_SEQUENCE = partial(
    Mechanism, without="query_offset", itself=True, sizes=_SIZES, causal="T", loose=(("query", "T"),)
)  # fmt: skip
_CAUSAL = {"is_causal": True}
_BLOCKS = {"block_size": 4}
_THRESHOLD = "entmax::the_weights_are_those_of_the_threshold"
_CHOICE = "a choice among scores may flip"
_TERMS = "logit_terms::a_term_is_that_of_the_loops_also_in_packed_rows"

MECHANISMS = (
    _SET(sparsemax_attention, "sparsemax", settings=_BLOCKS, blockwise=True, oracle=_THRESHOLD),
    _SEQUENCE(
        entmax15_attention,
        "entmax15",
        settings={**_CAUSAL, **_BLOCKS},
        blockwise=True,
        cached=by_steps(entmax15_attention),
        oracle=_THRESHOLD,
    ),
    _SEQUENCE(
        entmax_attention,
        "entmax",
        settings={**_CAUSAL, **_BLOCKS},
        draw={"alpha": lambda random, shape: 1.1 + 0.25 * random.random(shape)},
        blockwise=True,
        cached=by_steps(entmax_attention),
        oracle=_THRESHOLD,
    ),
    _SEQUENCE(
        talking_heads_attention,
        "talking_heads",
        settings={**_CAUSAL, **_BLOCKS},
        blockwise=True,
        cached=by_steps(talking_heads_attention),
        oracle="small_variants::talking_heads_mix_logits_and_weights",
    ),
    _SEQUENCE(
        stick_breaking_attention,
        "stick_breaking",
        settings={"attend_current": True, **_BLOCKS},
        blockwise=True,
        cached=by_steps(stick_breaking_attention),
        oracle="stick_breaking::the_weights_are_shares_of_what_is_left",
    ),
    _SEQUENCE(
        forgetting_attention,
        "forgetting",
        draw={"log_forget": _gates},
        breaks=("padding",),  # the gates of padding between two keys count
        cached=by_steps(forgetting_attention),
        oracle=_TERMS,
    ),
    _SEQUENCE(
        length_scaled_attention,
        "length_scaled",
        settings=_CAUSAL,
        cached=by_steps(length_scaled_attention),
        oracle="small_variants::length_scaled_logits_count_the_visible_keys",
    ),
    _SEQUENCE(
        position_scaled_attention,
        "position_scaled",
        settings={**_CAUSAL, "interval": 3, "strength": 0.5},
        cached=by_steps(position_scaled_attention),
        oracle="small_variants::a_temperature_by_position_is_that_of_llama_4",
    ),
    _SEQUENCE(selective_attention, "selective", without="sums query_offset", cached=_selected, oracle=_TERMS),
    Mechanism(
        without_own_value,
        "exclusive",
        sizes=_SIZES,
        permutable=("B", "T", "Hv"),
        causal="T",
        cached=_own_values,
        oracle="small_variants::without_own_value_only_the_orthogonal_part_is_left",
    ),
    _SEQUENCE(
        moba_attention,
        "moba",
        settings={"block_size": 3, "top_k": 2},
        no_bfloat16=_CHOICE,
        cached=by_steps(moba_attention),
        oracle="chosen_keys::moba_is_the_loop_over_blocks",
    ),
    _SEQUENCE(
        native_sparse_attention,
        "native_sparse",
        {"gates": "B T N 3"},
        sizes={**_SIZES, "3": 3},
        settings={"block_size": 2, "num_blocks": 2, "window": 2},
        no_bfloat16=_CHOICE,
        cached=by_steps(native_sparse_attention, "query", "gates"),
        loose=(("query", "T"), ("gates", "T")),
        oracle="chosen_keys::native_sparse_attention_is_the_loop_over_branches",
    ),
    _SEQUENCE(
        indexed_attention,
        "indexed",
        sizes={**_SIZES, "M": 2, "I": 7},
        settings={"top_k": 4},
        flat={name: "the choice has no gradient" for name in ("index_query", "index_key", "index_weight")},
        no_bfloat16=_CHOICE,
        cached=by_steps(indexed_attention, "query", "index_query", "index_weight"),
        loose=(("query", "T"), ("index_query", "T"), ("index_weight", "T")),
        oracle="chosen_keys::indexed_attention_is_the_loop_over_the_best_keys",
    ),
    _SEQUENCE(
        path_attention,
        "path",
        without="log_forget",
        settings={"chunk_size": 4},
        draw={"direction": _unit, "beta": lambda random, shape: 2 * random.random(shape)},
        loose=(),
        breaks=("padding",),  # padding between two tokens reflects, too
        cached=_reflected,
        oracle="between_tokens::path_attention_is_the_product_of_reflections",
    ),
    _SEQUENCE(
        multi_token_attention,
        "multi_token",
        sizes={**_SIZES, "Q": 3, "C": 3, "P": 2, "W": 3, "G": 2, "M": 3, "E": 3, "J": 2},
        breaks=("padding",),  # the queries of padding between two tokens count
        cached=_last_queries,
        oracle="between_tokens::multi_token_attention_is_the_loop_over_taps",
    ),
    _SEQUENCE(
        tensor_product_attention,
        "tensor_product",
        sizes={**_SIZES, "R": 4, "P": 3, "Q": 2},
        settings=_CAUSAL,
        loose=(("query_factors", "T"), ("query_features", "T")),
        cached=by_steps(tensor_product_attention, "query_factors", "query_features"),
        oracle="between_tokens::tensor_products_are_sums_over_ranks",
    ),
)

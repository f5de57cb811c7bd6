"""Dot-product attention with other weights than a softmax, or with steps before and after the softmax."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from attention_research.kernels.variants import (
    entmax15_attention,
    entmax_attention,
    forgetting_attention,
    length_scaled_attention,
    selective_attention,
    selective_bias,
    sparsemax_attention,
    stick_breaking_attention,
    talking_heads_attention,
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
)

"""Dot-product attention with one change: scale, norm, saturation, normaliser, heads, cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from attention_research.kernels.variants import (
    RollingCache,
    absorbed_latent_attention,
    differential_attention,
    grouped_query_attention,
    latent_attention,
    query_key_l2_attention,
    query_key_norm_attention,
    sigmoid_attention,
    sink_attention,
    softcap_attention,
    streaming_attention,
    streaming_attention_step,
    temperature_attention,
)
from tests.catalogue import around_softmax
from tests.catalogue.mechanism import Mechanism


def _positions(x: Array, number: Array) -> Array:
    return lax.dynamic_slice_in_dim(x, number, 1, axis=1)


def _streamed(query: Array, key: Array, value: Array, *, num_sinks: int, window: int, **settings: int) -> Array:
    places = num_sinks + window + 1
    empty = lambda x: jnp.zeros((x.shape[0], places, *x.shape[2:]), x.dtype)

    def step(cache: RollingCache, position: Array):
        now = (_positions(x, position) for x in (query, key, value))
        return streaming_attention_step(cache, *now, num_sinks=num_sinks)

    start = RollingCache(empty(key), empty(value), jnp.int32(0))
    _, outputs = lax.scan(step, start, jnp.arange(query.shape[1], dtype=jnp.int32))
    return jnp.moveaxis(outputs[:, :, 0], 0, 1)


def _decoded_latents(
    query: Array, rotated_query: Array, latent: Array, rotated_key: Array, *, is_causal: bool, **weights: Any
) -> Array:
    assert is_causal
    S = latent.shape[1]

    def step(cache: tuple[Array, Array], position: Array):
        now = (_positions(latent, position), _positions(rotated_key, position))
        latents, keys = (
            lax.dynamic_update_slice_in_dim(x, new, position, axis=1) for x, new in zip(cache, now, strict=True)
        )
        mask = (jnp.arange(S) <= position)[None, None, None]
        queries = (_positions(query, position), _positions(rotated_query, position))
        return (latents, keys), absorbed_latent_attention(*queries, latents, keys, **weights, mask=mask)[:, 0]

    start = (jnp.zeros_like(latent), jnp.zeros_like(rotated_key))
    _, outputs = lax.scan(step, start, jnp.arange(query.shape[1], dtype=jnp.int32))
    return jnp.moveaxis(outputs, 0, 1)


_SIZES = {"N": 6, "K": 3, "Hv": 7, "P": 3, "R": 11, "2": 2}
_SET = partial(Mechanism, without="bias", sizes=_SIZES, permutable=("T", "S"), blockwise=True)
_SEQUENCE = partial(
    Mechanism, without="bias", itself=True, sizes=_SIZES, causal="T", loose=(("query", "T"),), blockwise=True
)
#: Two or more blocks at the lengths of the tests.
_BLOCKS = {"block_size": 4}
_SCALED = "variants::another_scale_or_norm_is_the_equation"
_NORMALISED = "variants::another_normaliser_is_the_equation"
_GROUPS = "variants::groups_share_a_head_and_pooling_is_the_mean_of_projections"
_LATENT = "variants::latent_attention_is_the_equations_in_both_forms"
_STREAMING = partial(
    _SEQUENCE,
    streaming_attention,
    settings={"num_sinks": 2, "window": 2, "block_size": 3},
    oracle="variants::streaming_sees_the_first_tokens_and_a_window",
)

MECHANISMS = (
    _SET(
        temperature_attention,
        "learned_temperature",
        draw={"temperature": lambda random, shape: 1 + random.random(shape)},
        oracle=_SCALED,
    ),
    _SET(query_key_l2_attention, "query_key_l2", oracle=_SCALED),
    _SET(query_key_norm_attention, "query_key_norm", oracle=_SCALED),
    _SET(softcap_attention, "softcap", settings={"cap": 1.5, **_BLOCKS}, oracle=_NORMALISED),
    _SEQUENCE(sigmoid_attention, "sigmoid", settings={"is_causal": True, **_BLOCKS}, oracle=_NORMALISED),
    _SEQUENCE(
        sink_attention,
        "learned_sink",
        settings={"is_causal": True, "local_window_size": 3, "block_size": 2},
        oracle=_NORMALISED,
    ),
    _STREAMING("streaming"),
    _STREAMING("streaming_cached", without="bias mask", cached=_streamed),
    _SEQUENCE(
        differential_attention,
        "differential",
        settings={"lambda_init": 0.3, "is_causal": True},
        oracle="variants::differential_attention_is_the_equations",
    ),
    _SET(grouped_query_attention, "grouped_query", oracle=_GROUPS),
    _SEQUENCE(
        grouped_query_attention,
        "multi_query",
        settings={"is_causal": True},
        sizes={**_SIZES, "K": 1},
        oracle=_GROUPS,
    ),
    _SET(
        grouped_query_attention,
        "pooled_heads",
        settings={"num_groups": 3},
        sizes={**_SIZES, "K": 6},
        oracle=_GROUPS,
    ),
    _SET(latent_attention, "latent", oracle=_LATENT),
    _SEQUENCE(
        absorbed_latent_attention,
        "latent_absorbed",
        without="bias mask",
        settings={"is_causal": True},
        loose=(),
        cached=_decoded_latents,
        oracle=_LATENT,
    ),
    *around_softmax.MECHANISMS,
)

"""Dot-product attention changed in one place: scale, norm, saturation, normaliser, heads, cache."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
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
from tests.catalogue.mechanism import Empty, Mechanism


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
_HEADS = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv"}
_MASK = {"mask": "bool B 1 1 S"}
_OF_ITSELF = {"query": "B T N H", "key": "B T K H", "value": "B T K Hv"}
_CAUSAL_MASK = {"mask": "bool B 1 1 T"}
_ORACLE = "tests/kernels/test_variants.py::test_"
_SET: dict[str, Any] = dict(
    outputs=("B T N Hv",),
    sizes=_SIZES,
    permutable=("T", "S"),
    padding=("mask", "S"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    blockwise=True,
    grows=("T", "S"),
)
_SEQUENCE: dict[str, Any] = dict(
    outputs=("B T N Hv",),
    sizes=_SIZES,
    causal="T",
    padding=("mask", "T"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    blockwise=True,
    loose=(("query", "T"),),
    grows=("T",),
)
#: Of two blocks or more at the lengths of the tests.
_BLOCKS = {"block_size": 4}
_LATENT = {
    "query": "B T N H",
    "rotated_query": "B T N P",
    "latent": "B S R",
    "rotated_key": "B S P",
    "key_weight": "R N H",
    "value_weight": "R N Hv",
}

MECHANISMS = (
    Mechanism(
        "learned_temperature",
        temperature_attention,
        {**_HEADS, "temperature": "N", **_MASK},
        draw={"temperature": lambda random, shape: 1 + random.random(shape)},
        oracle=_ORACLE + "another_scale_or_norm_is_the_equation",
        **_SET,
    ),
    Mechanism(
        "query_key_l2",
        query_key_l2_attention,
        {**_HEADS, "gain": "N", **_MASK},
        oracle=_ORACLE + "another_scale_or_norm_is_the_equation",
        **_SET,
    ),
    Mechanism(
        "query_key_norm",
        query_key_norm_attention,
        {**_HEADS, "query_gain": "H", "key_gain": "H", **_MASK},
        oracle=_ORACLE + "another_scale_or_norm_is_the_equation",
        **_SET,
    ),
    Mechanism(
        "softcap",
        softcap_attention,
        {**_HEADS, **_MASK},
        settings={"cap": 1.5, **_BLOCKS},
        oracle=_ORACLE + "another_normaliser_is_the_equation",
        **_SET,
    ),
    Mechanism(
        "sigmoid",
        sigmoid_attention,
        {**_OF_ITSELF, "logit_bias": "N", **_CAUSAL_MASK},
        settings={"is_causal": True, **_BLOCKS},
        oracle=_ORACLE + "another_normaliser_is_the_equation",
        **_SEQUENCE,
    ),
    Mechanism(
        "learned_sink",
        sink_attention,
        {**_OF_ITSELF, "sink": "N", **_CAUSAL_MASK},
        settings={"is_causal": True, "local_window_size": 3, "block_size": 2},
        oracle=_ORACLE + "another_normaliser_is_the_equation",
        **_SEQUENCE,
    ),
    Mechanism(
        "streaming",
        streaming_attention,
        {**_OF_ITSELF, **_CAUSAL_MASK},
        settings={"num_sinks": 2, "window": 2, "block_size": 3},
        oracle=_ORACLE + "streaming_sees_the_first_tokens_and_a_window",
        **_SEQUENCE,
    ),
    Mechanism(
        "streaming_cached",
        streaming_attention,
        _OF_ITSELF,
        settings={"num_sinks": 2, "window": 2, "block_size": 3},
        cached=_streamed,
        oracle=_ORACLE + "streaming_sees_the_first_tokens_and_a_window",
        **{**_SEQUENCE, "padding": None, "empty": None},
    ),
    Mechanism(
        "differential",
        differential_attention,
        {
            "query": "B T N 2 H",
            "key": "B T K 2 H",
            "value": "B T K Hv",
            "lambda_query": "2 H",
            "lambda_key": "2 H",
            "gain": "Hv",
            **_CAUSAL_MASK,
        },
        settings={"lambda_init": 0.3, "is_causal": True},
        oracle=_ORACLE + "differential_attention_is_the_equations",
        **_SEQUENCE,
    ),
    Mechanism(
        "grouped_query",
        grouped_query_attention,
        {**_HEADS, **_MASK},
        oracle=_ORACLE + "groups_share_a_head_and_pooling_is_the_mean_of_projections",
        **_SET,
    ),
    Mechanism(
        "multi_query",
        grouped_query_attention,
        {**_OF_ITSELF, **_CAUSAL_MASK},
        settings={"is_causal": True},
        oracle=_ORACLE + "groups_share_a_head_and_pooling_is_the_mean_of_projections",
        **{**_SEQUENCE, "sizes": {**_SIZES, "K": 1}},
    ),
    Mechanism(
        "pooled_heads",
        grouped_query_attention,
        {**_HEADS, **_MASK},
        settings={"num_groups": 3},
        oracle=_ORACLE + "groups_share_a_head_and_pooling_is_the_mean_of_projections",
        **{**_SET, "sizes": {**_SIZES, "K": 6}},
    ),
    Mechanism(
        "latent",
        latent_attention,
        {**_LATENT, **_MASK},
        oracle=_ORACLE + "latent_attention_is_the_equations_in_both_forms",
        **_SET,
    ),
    Mechanism(
        "latent_absorbed",
        absorbed_latent_attention,
        {name: axes.replace("S", "T") for name, axes in _LATENT.items()},
        settings={"is_causal": True},
        cached=_decoded_latents,
        oracle=_ORACLE + "latent_attention_is_the_equations_in_both_forms",
        **{**_SEQUENCE, "padding": None, "empty": None, "loose": ()},
    ),
)

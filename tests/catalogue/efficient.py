"""Attention cheaper than quadratic: by patterns and projections here, by features, hashing and sorting beside it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from attention_research.kernels import (
    bigbird_attention,
    block_local_attention,
    linformer_attention,
    sliding_window_attention,
)
from attention_research.kernels.efficient import (
    bigbird_random_blocks,
    block_local_cache,
    block_local_step,
    convolved_linformer_attention,
    pooled_linformer_attention,
    sliding_window_cache,
    sliding_window_step,
)
from attention_research.kernels.efficient.blocks import block_count
from attention_research.kernels.shapes import check_shapes
from tests.catalogue import efficient_features
from tests.catalogue.mechanism import Empty, Mechanism

_SELF = {"query": "B T N H", "key": "B T K H", "value": "B T K Hv"}
_CROSS = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv", "mask": "bool B S"}
_MASKED = {**_SELF, "mask": "bool B T"}
_LAWS: dict[str, Any] = dict(outputs=("B T N Hv",), blockwise=True)
_SIZES = {"N": 6, "K": 3, "Hv": 7}
_EMPTY = Empty("mask", np.s_[0], np.s_[0])


def _of_form(function, **axes):
    """The function for one form of arguments that may have several: [R S] or [K R S]."""

    @functools.wraps(function)
    def call(**arguments):
        check_shapes(**{name: (arguments[name], form) for name, form in axes.items()})
        return function(**arguments)

    return call


@functools.wraps(linformer_attention)
def _key_value(*, projection, **arguments):
    """E = F: one array projects keys and values."""
    return linformer_attention(key_projection=projection, value_projection=projection, **arguments)


@functools.wraps(linformer_attention)
def _layerwise(*, query, **arguments):
    """One array projects keys and values in all layers, of which there are two here: the second asks with the first's
    output."""
    return _key_value(query=_key_value(query=query, **arguments), **arguments)


_LINFORMER: dict[str, Any] = dict(
    **_LAWS,
    empty=_EMPTY,
    padding=("mask", "S"),
    permutable=("B", "T", "S", "R"),
    oracle="tests/kernels/test_linformer.py::test_linformer_is_the_equation",
    grows=("T", "S"),
)
_POOLED: dict[str, Any] = dict(
    **_LAWS,
    sizes=_SIZES,
    empty=_EMPTY,
    padding=("mask", "S"),
    permutable=("B", "T"),
    grows=("T", "S"),
)
_ONE, _EACH = "R S", "K R S"
#: Entries of variance 1 / R, as the paper draws them.
_SMALL = lambda random, shape: random.standard_normal(shape) / np.sqrt(shape[-2])
_BOTH_SMALL = {"key_projection": _SMALL, "value_projection": _SMALL}

_OF_LINFORMER = (
    Mechanism(
        "linformer_none",
        _of_form(linformer_attention, key_projection=_EACH, value_projection=_EACH),
        {**_CROSS, "key_projection": _EACH, "value_projection": _EACH},
        sizes={**_SIZES, "R": 17},
        draw=_BOTH_SMALL,
        **_LINFORMER,
    ),
    Mechanism(
        "linformer_headwise",
        linformer_attention,
        {**_CROSS, "key_projection": _ONE, "value_projection": _ONE},
        sizes={**_SIZES, "R": 17},
        draw=_BOTH_SMALL,
        **_LINFORMER,
    ),
    Mechanism(
        "linformer_key_value",
        _of_form(_key_value, key="B S K H", projection=_ONE),
        {**_CROSS, "projection": _ONE},
        sizes={**_SIZES, "R": 17},
        draw={"projection": _SMALL},
        **_LINFORMER,
    ),
    Mechanism(
        "linformer_layerwise",
        _of_form(_layerwise, key="B S K H", projection=_ONE),
        {**_CROSS, "value": "B S K H", "projection": _ONE},  # the second layer's queries are the first one's outputs
        sizes={**_SIZES, "R": 17},
        **{**_LINFORMER, "outputs": ("B T N H",), "draw": {"projection": _SMALL}},
    ),
    Mechanism(
        "linformer_mean_pooling",
        pooled_linformer_attention,
        _CROSS,
        settings={"rank": 5},
        oracle="tests/kernels/test_linformer_projections.py::test_pooled_is_attention_over_the_cells",
        **_POOLED,
    ),
    Mechanism(
        "linformer_max_pooling",
        pooled_linformer_attention,
        _CROSS,
        settings={"rank": 5, "pooling": "max"},
        oracle="tests/kernels/test_linformer_projections.py::test_pooled_is_attention_over_the_cells",
        **_POOLED,
    ),
    Mechanism(
        "linformer_convolution",
        _of_form(convolved_linformer_attention, key_kernel="W H", value_kernel="W Hv"),
        {**_CROSS, "key_kernel": "W H", "value_kernel": "W Hv"},
        oracle="tests/kernels/test_linformer_projections.py"
        "::test_convolved_is_attention_over_pytorchs_depthwise_convolution",
        **{**_POOLED, "sizes": {**_SIZES, "W": 3}},
    ),
)


def _over_positions(step, cache, *arrays):
    """The outputs of step(cache, *arrays at a position), position after position."""
    by_position = tuple(jnp.moveaxis(x, 1, 0) for x in arrays)
    return jnp.moveaxis(lax.scan(lambda cache, now: step(cache, *now), cache, by_position)[1], 0, 1)


def _windows_one_by_one(query, key, value, *, window, global_positions, is_causal, block_size):
    cache = sliding_window_cache(key[:, 0], value[:, 0], window=window, num_global=global_positions)
    step = functools.partial(sliding_window_step, num_global=global_positions)
    return _over_positions(step, cache, query, key, value)


def _blocks_one_by_one(query, key, value, *, block_size, is_causal):
    return _over_positions(
        block_local_step, block_local_cache(key[:, 0], value[:, 0], block_size=block_size), query, key, value
    )


_DRAW = jax.jit(bigbird_random_blocks, static_argnums=(1, 2))


@functools.wraps(bigbird_attention)
def _bigbird(*, random, query, block_size, random_blocks, **arguments):
    """BigBird on a graph drawn from the key, for any length."""
    drawn = _DRAW(random, block_count(query.shape[1], block_size), random_blocks)
    return bigbird_attention(query, random_blocks=drawn, block_size=block_size, **arguments)


_WINDOW = "tests/kernels/test_sliding_window.py::test_sliding_window_is_dense_attention_with_the_pattern"
_LOCAL = "tests/kernels/test_block_local.py::test_block_local_is_dense_attention_with_the_pattern"
_POSITIONS = lambda random, shape: random.integers(-1, 11, shape)
_PATTERN: dict[str, Any] = dict(**_LAWS, grows=("T",))
_MASKED_PATTERN: dict[str, Any] = dict(**_PATTERN, padding=("mask", "T"), empty=_EMPTY)

_OF_PATTERNS = (
    Mechanism(
        "sliding_window",
        sliding_window_attention,
        {**_MASKED, "global_positions": "int B G"},
        settings={"window": 2, "block_size": 3},
        sizes={**_SIZES, "G": 3},
        draw={"global_positions": _POSITIONS},
        permutable=("B", "G"),
        oracle=_WINDOW,
        **_MASKED_PATTERN,
    ),
    Mechanism(
        "sliding_window_own_global_projections",
        sliding_window_attention,
        {
            **_MASKED,
            "global_positions": "int B G",
            "global_query": "B G N H",
            "global_key": "B T K H",
            "global_value": "B T K Hv",
        },
        settings={"window": 2, "block_size": 3, "is_causal": True},
        sizes={**_SIZES, "G": 3},
        draw={"global_positions": _POSITIONS},
        permutable=("B",),  # of two global slots with one number, the first gives the query
        causal="T",
        oracle=_WINDOW,
        **_MASKED_PATTERN,
    ),
    Mechanism(
        "sliding_window_causal",
        sliding_window_attention,
        _SELF,
        settings={"window": 2, "block_size": 3, "is_causal": True, "global_positions": 2},
        sizes=_SIZES,
        permutable=("B",),
        causal="T",
        cached=_windows_one_by_one,
        oracle=_WINDOW,
        **_PATTERN,
    ),
    Mechanism(
        "block_local",
        block_local_attention,
        _MASKED,
        settings={"block_size": 4},
        sizes=_SIZES,
        permutable=("B",),
        oracle=_LOCAL,
        **_MASKED_PATTERN,
    ),
    Mechanism(
        "block_local_causal",
        block_local_attention,
        _SELF,
        settings={"block_size": 4, "is_causal": True},
        sizes=_SIZES,
        permutable=("B",),
        causal="T",
        cached=_blocks_one_by_one,
        oracle=_LOCAL,
        **_PATTERN,
    ),
    Mechanism(
        "block_local_strided",
        block_local_attention,
        _MASKED,
        settings={"block_size": 4, "is_causal": True, "strided": True},
        sizes=_SIZES,
        permutable=("B",),
        causal="T",
        oracle=_LOCAL,
        **_MASKED_PATTERN,
    ),
    Mechanism(
        "bigbird",
        _bigbird,
        {**_MASKED, "random": "key"},
        settings={"block_size": 2, "random_blocks": 1},
        sizes=_SIZES,
        permutable=("B",),
        oracle="tests/kernels/test_bigbird.py::test_bigbird_is_dense_attention_with_the_graph",
        **_MASKED_PATTERN,
    ),
)

PATTERNS = _OF_LINFORMER + _OF_PATTERNS
MECHANISMS = PATTERNS + efficient_features.MECHANISMS

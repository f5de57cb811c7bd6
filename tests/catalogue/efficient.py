"""Sub-quadratic attention by patterns and projections. `efficient_features` has features, hashing and sorting."""

from __future__ import annotations

import functools
from functools import partial

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
from tests.catalogue.mechanism import Mechanism

_SIZES = {"N": 6, "K": 3, "Hv": 7}


def _of_form(function, **axes):
    """The function restricted to one form of arguments that may have several: [R S] or [K R S]."""

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
    """One array projects keys and values in all layers.

    There are two layers here: the second layer's queries are the output of the first.
    """
    return _key_value(query=_key_value(query=query, **arguments), **arguments)


_ONE, _EACH = "R S", "K R S"
#: Entries with variance 1 / R, as in the paper.
_SMALL = lambda random, shape: random.standard_normal(shape) / np.sqrt(shape[-2])
_LINFORMER = partial(
    Mechanism,
    first="query key value mask",
    sizes={**_SIZES, "R": 17},
    draw={name: _SMALL for name in ("projection", "key_projection", "value_projection")},
    permutable=("B", "T", "S", "R"),
    blockwise=True,
    oracle="linformer::linformer_is_the_equation",
)
_TIED = partial(_LINFORMER, without="key_projection value_projection")
_POOLED = partial(
    Mechanism, first="query key value mask", sizes={**_SIZES, "W": 3}, permutable=("B", "T"), blockwise=True
)
_CELLS = "linformer_projections::pooled_is_attention_over_the_cells"

_OF_LINFORMER = (
    _LINFORMER(
        _of_form(linformer_attention, key_projection=_EACH, value_projection=_EACH),
        "linformer_none",
        {"key_projection": _EACH, "value_projection": _EACH},
    ),
    _LINFORMER(linformer_attention, "linformer_headwise", {"key_projection": _ONE, "value_projection": _ONE}),
    _TIED(_of_form(_key_value, key="B S K H", projection=_ONE), "linformer_key_value", {"projection": _ONE}),
    _TIED(
        _of_form(_layerwise, key="B S K H", projection=_ONE),
        "linformer_layerwise",
        {"value": "B S K H", "projection": _ONE},  # the second layer's queries are the first one's outputs
        outputs=("B T N H",),
    ),
    _POOLED(pooled_linformer_attention, "linformer_mean_pooling", settings={"rank": 5}, oracle=_CELLS),
    _POOLED(pooled_linformer_attention, "linformer_max_pooling", settings={"rank": 5, "pooling": "max"}, oracle=_CELLS),
    _POOLED(
        _of_form(convolved_linformer_attention, key_kernel="W H", value_kernel="W Hv"),
        "linformer_convolution",
        {"key_kernel": "W H", "value_kernel": "W Hv"},
        oracle="linformer_projections::convolved_is_attention_over_pytorchs_depthwise_convolution",
    ),
)


def _over_positions(step, cache, *arrays):
    """The outputs of step(cache, *arrays at a position), one position after the other."""
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


_PATTERN = partial(Mechanism, sizes={**_SIZES, "G": 3}, permutable=("B",), blockwise=True)
_WINDOW = partial(
    _PATTERN,
    sliding_window_attention,
    draw={"global_positions": lambda random, shape: random.integers(-1, 11, shape)},
    oracle="sliding_window::sliding_window_is_dense_attention_with_the_pattern",
)
_BLOCK_LOCAL = partial(
    _PATTERN, block_local_attention, oracle="block_local::block_local_is_dense_attention_with_the_pattern"
)

_OF_PATTERNS = (
    _WINDOW(
        "sliding_window",
        without="global_query global_key global_value",
        settings={"window": 2, "block_size": 3},
        permutable=("B", "G"),  # not G below: if two global slots have the same position, the first gives the query
    ),
    _WINDOW(
        "sliding_window_own_global_projections",
        settings={"window": 2, "block_size": 3, "is_causal": True},
        causal="T",
    ),
    _WINDOW(
        "sliding_window_causal",
        without="mask global_query global_key global_value",
        settings={"window": 2, "block_size": 3, "is_causal": True, "global_positions": 2},
        causal="T",
        cached=_windows_one_by_one,
    ),
    _BLOCK_LOCAL("block_local", settings={"block_size": 4}),
    _BLOCK_LOCAL(
        "block_local_causal",
        without="mask",
        settings={"block_size": 4, "is_causal": True},
        causal="T",
        cached=_blocks_one_by_one,
    ),
    _BLOCK_LOCAL("block_local_strided", settings={"block_size": 4, "is_causal": True, "strided": True}, causal="T"),
    _PATTERN(
        _bigbird,
        "bigbird",
        {"random": "key"},
        settings={"block_size": 2, "random_blocks": 1},
        oracle="bigbird::bigbird_is_dense_attention_with_the_graph",
    ),
)

PATTERNS = _OF_LINFORMER + _OF_PATTERNS
MECHANISMS = PATTERNS + efficient_features.MECHANISMS

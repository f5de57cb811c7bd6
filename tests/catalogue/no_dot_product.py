"""Mixing without dot products: Synthesizers, lightweight, dynamic and long convolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from attention_research.kernels import (
    dense_synthesizer_attention,
    dynamic_convolution,
    factorized_dense_synthesizer_attention,
    factorized_random_synthesizer_attention,
    lightweight_convolution,
    synthesizer_attention,
)
from attention_research.kernels.no_dot_product import (
    dynamic_convolution_step,
    lightweight_convolution_step,
    long_convolution,
    long_convolution_step,
    mixture_synthesizer_attention,
    released_dense_synthesizer_attention,
)
from tests.catalogue.mechanism import Mechanism


def _one_row_at_a_time(function: Callable[..., Array], rows: tuple[str, ...]) -> Callable[..., Array]:
    """Decoding: each step cuts the axis T of `rows` to one position. The other arrays are caches that are filled."""

    def cached(*, is_causal: bool, **inputs: Array) -> Array:
        assert is_causal
        T = inputs["value"].shape[1]

        def step(filled: Array, position: Array):
            filled = lax.dynamic_update_slice_in_dim(
                filled, lax.dynamic_slice_in_dim(inputs["value"], position, 1, axis=1), position, axis=1
            )
            now = {
                name: lax.dynamic_slice_in_dim(x, position, 1, axis=1 if name in ("x", "query") else 2)
                for name, x in inputs.items()
                if name in rows
            }
            mask = (jnp.arange(T) <= position)[None, None, None]
            return filled, function(**{**inputs, **now, "value": filled, "mask": mask})[:, 0]

        _, outputs = lax.scan(step, jnp.zeros_like(inputs["value"]), jnp.arange(T, dtype=jnp.int32))
        return jnp.moveaxis(outputs, 0, 1)

    return cached


def _convolved(step: Callable[..., tuple[Array, Array]], taps: int) -> Callable[..., Array]:
    def cached(x: Array, *, is_causal: bool, **inputs: Array) -> Array:
        assert is_causal
        state = jnp.zeros((x.shape[0], taps - 1, x.shape[2]), x.dtype)
        _, outputs = lax.scan(lambda state, x: step(state, x, **inputs), state, jnp.moveaxis(x, 1, 0))
        return jnp.moveaxis(outputs, 0, 1)

    return cached


def _long_one_by_one(x: Array, kernel: Array, skip: Array, mask: Array, reset: Array, **settings: int) -> Array:
    """Decoding of packed rows: an example begins with an empty cache."""

    def step(inputs: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        x, real, begins, index = now
        inputs = jnp.where(begins[:, None, None], jnp.zeros_like(inputs), inputs)
        return long_convolution_step(inputs, jnp.where(real[:, None], x, jnp.zeros_like(x)), kernel, index, skip)

    along = (*(jnp.moveaxis(one, 1, 0) for one in (x, mask, reset)), jnp.arange(x.shape[1], dtype=jnp.int32))
    return jnp.moveaxis(lax.scan(step, jnp.zeros_like(x), along)[1], 0, 1)


_SIZES = {"Hv": 7, "F": 19, "R": 2, "P": 3, "Q": 5, "W": 5}
_SYNTHESIZER = partial(Mechanism, sizes=_SIZES, oracle="synthesizer::synthesizers_are_the_equations")
_MIXTURE = partial(
    Mechanism,
    mixture_synthesizer_attention,
    sizes=_SIZES,
    oracle="synthesizer::a_mixture_is_the_equation_in_every_form",
)
_CAUSAL = {"itself": True, "settings": {"is_causal": True}, "causal": "T"}
_DENSE = "x hidden_weight hidden_bias output_weight output_bias"
_ONE = {"scores": "1 N T S"}
_ONE_CAUSAL = {"scores": "1 N T T"}

_SYNTHESIZERS = (
    _SYNTHESIZER(synthesizer_attention, "random_synthesizer", _ONE, permutable=("T", "S", "N")),
    _SYNTHESIZER(
        synthesizer_attention,
        "random_synthesizer_causal",
        _ONE_CAUSAL,
        without="mask",
        loose=(("scores", "T"),),
        cached=_one_row_at_a_time(synthesizer_attention, ("scores",)),
        **_CAUSAL,
    ),
    _SYNTHESIZER(dense_synthesizer_attention, "dense_synthesizer", first=_DENSE, permutable=("T", "S", "N")),
    _SYNTHESIZER(
        dense_synthesizer_attention,
        "dense_synthesizer_causal",
        first=_DENSE,
        without="mask",
        loose=(("x", "T"),),
        cached=_one_row_at_a_time(dense_synthesizer_attention, ("x",)),
        **_CAUSAL,
    ),
    _SYNTHESIZER(
        released_dense_synthesizer_attention,
        "released_dense_synthesizer",
        first="query weight",
        permutable=("T", "S", "N"),
    ),
    _SYNTHESIZER(
        factorized_random_synthesizer_attention, "factorized_random_synthesizer", permutable=("T", "S", "N", "R")
    ),
    _SYNTHESIZER(
        factorized_random_synthesizer_attention,
        "released_factorized_random_synthesizer",
        {"left": "N S R"},
        outputs=("B S N Hv",),
        permutable=("S", "N", "R"),
        settings={"released": True},
    ),
    _SYNTHESIZER(factorized_dense_synthesizer_attention, "factorized_dense_synthesizer", permutable=("T", "N")),
)

_MIXTURES = (
    _MIXTURE(
        "synthesizer_plus_alpha",
        {"key": "B S N H", "value": "B S N Hv", **_ONE},
        first="query key scores alpha",
        permutable=("T", "S", "N"),
    ),
    _MIXTURE(
        "synthesizer_plus_causal",
        {"key": "B T N H", "value": "B T N Hv", **_ONE_CAUSAL},
        without="mask alpha",
        loose=(("query", "T"), ("scores", "T")),
        **_CAUSAL,
    ),
)

#: D = 6 channels are 3 heads of 2; without sharing, N = D.
_CHANNELS = {**_SIZES, "D": 6}
_LIGHT = partial(
    Mechanism,
    lightweight_convolution,
    sizes=_CHANNELS,
    oracle="lightweight_convolution::lightweight_convolution_is_the_equation",
)
_DYNAMIC = partial(
    Mechanism,
    dynamic_convolution,
    sizes=_CHANNELS,
    oracle="lightweight_convolution::dynamic_convolution_is_the_equation",
)

_CONVOLUTIONS = (
    _LIGHT(),
    _LIGHT(
        "lightweight_convolution_unshared",
        {"kernel": "D W"},
        permutable=("D",),
        loose=(("x", "D"),),  # twice as many channels would share the kernels
    ),
    _LIGHT(
        "lightweight_convolution_causal",
        without="mask",
        cached=_convolved(lightweight_convolution_step, _SIZES["W"]),
        **_CAUSAL,
    ),
    _DYNAMIC(),
    _DYNAMIC(
        "dynamic_convolution_causal",
        without="mask",
        cached=_convolved(dynamic_convolution_step, _SIZES["W"]),
        **_CAUSAL,
    ),
)

_LONG = Mechanism(
    long_convolution,
    settings={"block_size": 4},
    draw={"reset": lambda random, shape: random.random(shape) < 0.2},
    permutable=("B", "D"),
    causal="T",
    cached=_long_one_by_one,
    blockwise=True,
    oracle="long_convolution::blocks_and_steps_are_the_equation",
)

MECHANISMS = _SYNTHESIZERS + _MIXTURES + _CONVOLUTIONS + (_LONG,)

"""Mixing without dot products: Synthesizers, lightweight and dynamic convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
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
    mixture_synthesizer_attention,
    released_dense_synthesizer_attention,
)
from tests.catalogue.mechanism import Empty, Mechanism


def _one_row_at_a_time(function: Callable[..., Array], rows: tuple[str, ...]) -> Callable[..., Array]:
    """Decoding: at each step the axis T of `rows` is cut to one position; the other arrays are caches being filled."""

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


_SIZES = {"Hv": 7, "F": 19, "R": 2, "P": 3, "Q": 5, "W": 5}
_VALUE = {"value": "B S N Hv", "mask": "bool B 1 1 S"}
_ATTENTION: dict[str, Any] = dict(
    outputs=("B T N Hv",),
    sizes=_SIZES,
    padding=("mask", "S"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    grows=("T", "S"),
)
_CAUSAL: dict[str, Any] = dict(
    outputs=("B T N Hv",), sizes=_SIZES, settings={"is_causal": True}, causal="T", grows=("T",)
)
_SYNTHESIZER = "tests/kernels/test_synthesizer.py::test_"
_DENSE = {
    "x": "B T D",
    "hidden_weight": "N D F",
    "hidden_bias": "N F",
    "output_weight": "N F S",
    "output_bias": "N S",
}
_DENSE_CAUSAL = {**_DENSE, "output_weight": "N F T", "output_bias": "N T", "value": "B T N Hv"}

_SYNTHESIZERS = (
    Mechanism(
        "random_synthesizer",
        synthesizer_attention,
        {"scores": "1 N T S", **_VALUE},
        permutable=("T", "S", "N"),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_ATTENTION,
    ),
    Mechanism(
        "random_synthesizer_causal",
        synthesizer_attention,
        {"scores": "1 N T T", "value": "B T N Hv"},
        loose=(("scores", "T"),),
        cached=_one_row_at_a_time(synthesizer_attention, ("scores",)),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_CAUSAL,
    ),
    Mechanism(
        "dense_synthesizer",
        dense_synthesizer_attention,
        {**_DENSE, **_VALUE},
        permutable=("T", "S", "N"),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_ATTENTION,
    ),
    Mechanism(
        "dense_synthesizer_causal",
        dense_synthesizer_attention,
        _DENSE_CAUSAL,
        loose=(("x", "T"),),
        cached=_one_row_at_a_time(dense_synthesizer_attention, ("x",)),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_CAUSAL,
    ),
    Mechanism(
        "released_dense_synthesizer",
        released_dense_synthesizer_attention,
        {"query": "B T N H", "weight": "H S", **_VALUE},
        permutable=("T", "S", "N"),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_ATTENTION,
    ),
    Mechanism(
        "factorized_random_synthesizer",
        factorized_random_synthesizer_attention,
        {"left": "N T R", "right": "N S R", **_VALUE},
        permutable=("T", "S", "N", "R"),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_ATTENTION,
    ),
    Mechanism(
        "released_factorized_random_synthesizer",
        factorized_random_synthesizer_attention,
        {"left": "N S R", "right": "N S R", **_VALUE},
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        permutable=("S", "N", "R"),
        settings={"released": True},
        **{**_ATTENTION, "outputs": ("B S N Hv",), "grows": ("S",)},
    ),
    Mechanism(
        "factorized_dense_synthesizer",
        factorized_dense_synthesizer_attention,
        {"left": "B N T P", "right": "B N T Q", **_VALUE},
        permutable=("T", "N"),
        oracle=_SYNTHESIZER + "synthesizers_are_the_equations",
        **_ATTENTION,
    ),
)

_MIXTURES = (
    Mechanism(
        "synthesizer_plus_alpha",
        mixture_synthesizer_attention,
        {"query": "B T N H", "key": "B S N H", "scores": "1 N T S", "alpha": "N", **_VALUE},
        permutable=("T", "S", "N"),
        oracle=_SYNTHESIZER + "a_mixture_is_the_equation_in_every_form",
        **_ATTENTION,
    ),
    Mechanism(
        "synthesizer_plus_causal",
        mixture_synthesizer_attention,
        {"query": "B T N H", "key": "B T N H", "value": "B T N Hv", "scores": "1 N T T"},
        loose=(("query", "T"), ("scores", "T")),
        oracle=_SYNTHESIZER + "a_mixture_is_the_equation_in_every_form",
        **_CAUSAL,
    ),
)

_LIGHT = {"x": "B T D", "kernel": "N W"}
_DYNAMIC = {"x": "B T D", "weight": "N W D", "bias": "N W"}
#: D = 6 channels are 3 heads of 2; without sharing, N = D.
_CONVOLUTION: dict[str, Any] = dict(outputs=("B T D",), sizes={**_SIZES, "D": 6}, grows=("T",))
_PADDED: dict[str, Any] = dict(padding=("mask", "T"), empty=Empty("mask", np.s_[0], np.s_[0]))
_MASK = {"mask": "bool B T"}
_LIGHT_ORACLE = "tests/kernels/test_lightweight_convolution.py::test_lightweight_convolution_is_the_equation"
_DYNAMIC_ORACLE = "tests/kernels/test_lightweight_convolution.py::test_dynamic_convolution_is_the_equation"

_CONVOLUTIONS = (
    Mechanism(
        "lightweight_convolution", lightweight_convolution, {**_LIGHT, **_MASK}, oracle=_LIGHT_ORACLE, **_CONVOLUTION,
        **_PADDED,
    ),
    Mechanism(
        "lightweight_convolution_unshared",
        lightweight_convolution,
        {"x": "B T D", "kernel": "D W", **_MASK},
        permutable=("D",),
        loose=(("x", "D"),),  # twice the channels would share the kernels
        oracle=_LIGHT_ORACLE,
        **_CONVOLUTION,
        **_PADDED,
    ),
    Mechanism(
        "lightweight_convolution_causal",
        lightweight_convolution,
        _LIGHT,
        settings={"is_causal": True},
        causal="T",
        cached=_convolved(lightweight_convolution_step, _SIZES["W"]),
        oracle=_LIGHT_ORACLE,
        **_CONVOLUTION,
    ),
    Mechanism(
        "dynamic_convolution", dynamic_convolution, {**_DYNAMIC, **_MASK}, oracle=_DYNAMIC_ORACLE, **_CONVOLUTION,
        **_PADDED,
    ),
    Mechanism(
        "dynamic_convolution_causal",
        dynamic_convolution,
        _DYNAMIC,
        settings={"is_causal": True},
        causal="T",
        cached=_convolved(dynamic_convolution_step, _SIZES["W"]),
        oracle=_DYNAMIC_ORACLE,
        **_CONVOLUTION,
    ),
)  # fmt: skip

MECHANISMS = _SYNTHESIZERS + _MIXTURES + _CONVOLUTIONS

"""Positions: encodings, rotations and biases, and the ways in which they enter attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.kernels import (
    alibi_bias,
    relative_attention,
    rotary,
    t5_relative_bias,
    transformer_xl_attention,
)
from attention_research.kernels.positions import (
    add_positions,
    alibi_distance_bias,
    concatenate_positions,
    extend_with_memory,
    learned_positions,
    no_positions,
    positional_attention,
    project_concatenated,
    sinusoidal_at,
    structural_attention,
    structural_depths,
    structural_distances,
    structural_encoding,
    t5_distance_bias,
)
from tests.catalogue.mechanism import Empty, Mechanism


def _each(function: Callable[..., Array], *along: str, axis: int = 1) -> Callable[..., Array]:
    """`function` for one position at a time, the inputs named in `along` being cut there (positions [T] at their 0)."""

    def one_by_one(**inputs: Array) -> Array:
        length = inputs[along[0]].shape[axis]
        cut = lambda name, i: (slice(None),) * (axis if inputs[name].ndim > 1 else 0) + (slice(i, i + 1),)
        outputs = [
            function(**{**inputs, **{name: inputs[name][cut(name, i)] for name in along}}) for i in range(length)
        ]
        return jnp.concatenate(outputs, axis=axis)

    return one_by_one


def _offset(function: Callable[..., Array], start: Callable[..., int | Array]) -> Callable[..., Array]:
    """`function` for one query at a time, whose position is query_offset: start(inputs) + i."""

    def one_by_one(query: Array, **inputs: Array) -> Array:
        first = start(query, **inputs)
        outputs = [
            function(query=query[:, i : i + 1], **inputs, query_offset=jnp.int32(first + i))
            for i in range(query.shape[1])
        ]
        return jnp.concatenate(outputs, axis=1)

    return one_by_one


def _bias_rows(function: Callable[..., Array]) -> Callable[..., Array]:
    def one_by_one(query_length: int, query_offset: Array, **rest: Array) -> Array:
        rows = [function(query_length=1, query_offset=query_offset + jnp.int32(i), **rest) for i in range(query_length)]
        return jnp.concatenate(rows, axis=2)

    return one_by_one


def _positions(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, 9, shape)


def _trees(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random trees over shuffled words: the n-th word hangs below an earlier one, the first below nothing."""
    heads = np.full(shape, -1)
    for tree in heads.reshape(-1, shape[-1]):
        order = random.permutation(shape[-1])
        for n in range(1, shape[-1]):
            tree[order[n]] = order[random.integers(n)]
    return heads


def _causal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.tril(np.ones(shape[-2:], bool))[None, None]


_OFFSET = {"query_offset": lambda random, shape: np.array(5)}
_HEADS = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv"}
_SELF = {"query": "B T N H", "key": "B T K H", "value": "B T K Hv"}
_GROUPED = {"N": 6, "K": 3, "Hv": 7}
_MASKED: dict[str, Any] = dict(
    padding=("mask", "S"), empty=Empty("mask", np.s_[0], np.s_[0]), grows=("T", "S"), outputs=("B T N Hv",)
)
_XL = {"content_bias": "N H", "position_bias": "N H"}
_LENGTHS = {"query_length": 11, "key_length": 13}

_ENCODINGS = (
    Mechanism(
        "no_positions",
        no_positions,
        {"x": "B T D"},
        outputs=("B T D",),
        permutable=("T",),
        causal="T",
        cached=_each(no_positions, "x"),
        oracle="tests/kernels/test_position_encodings.py::test_without_positions_only_causal_attention_knows_the_order",
        grows=("T",),
    ),
    Mechanism(
        "sinusoidal",
        sinusoidal_at,
        {"positions": "int B T"},
        settings={"width": 7},
        sizes={"D": 7},
        draw={"positions": lambda random, shape: random.integers(-9, 10**6, shape)},
        outputs=("B T D",),
        permutable=("B", "T"),
        cached=_each(sinusoidal_at, "positions"),
        oracle="tests/kernels/test_position_encodings.py::test_sinusoids_at_any_position_are_the_equation",
        grows=("T",),
    ),
    Mechanism(
        "learned_positions",
        learned_positions,
        {"table": "P D", "positions": "int B T"},
        sizes={"P": 13},
        draw={"positions": lambda random, shape: random.integers(0, 13, shape)},
        outputs=("B T D",),
        permutable=("B", "T", "D"),
        cached=_each(learned_positions, "positions"),
        oracle="tests/kernels/test_position_encodings.py::test_learned_positions_are_an_embedding",
        grows=("T",),
    ),
    Mechanism(
        "added_positions",
        add_positions,
        {"x": "B T D", "encoding": "B T D"},
        outputs=("B T D",),
        permutable=("B", "T", "D"),
        causal="T",
        cached=_each(add_positions, "x", "encoding"),
        oracle="tests/kernels/test_position_encodings.py::test_concatenation_is_a_sum_of_projections_and_addition_the_tied_case",
        grows=("T",),
    ),
    Mechanism(
        "concatenated_positions",
        concatenate_positions,
        {"x": "B T D", "encoding": "1 T P"},
        sizes={"P": 7, "O": 24},
        outputs=("B T O",),
        permutable=("T",),
        causal="T",
        cached=_each(concatenate_positions, "x", "encoding"),
        oracle="tests/kernels/test_position_encodings.py::test_concatenation_is_a_sum_of_projections_and_addition_the_tied_case",
        grows=("T",),
    ),
    Mechanism(
        "projected_concatenation",
        project_concatenated,
        {"x": "B T D", "encoding": "1 T P", "weight": "C O"},
        sizes={"P": 7, "C": 24, "O": 5},
        outputs=("B T O",),
        permutable=("T", "O"),
        causal="T",
        cached=_each(project_concatenated, "x", "encoding"),
        oracle="tests/kernels/test_position_encodings.py::test_concatenation_is_a_sum_of_projections_and_addition_the_tied_case",
        grows=("T",),
    ),
)

_INSIDE = (
    Mechanism(
        "positions_in_attention",
        positional_attention,
        {
            **_HEADS,
            "query_positions": "T N H",
            "key_positions": "S 1 H",
            "value_positions": "S K Hv",
            "mask": "bool B 1 1 S",
        },
        sizes=_GROUPED,
        permutable=("T", "S"),
        blockwise=True,
        oracle="tests/kernels/test_position_encodings.py::test_positions_in_attention_are_the_equation",
        **_MASKED,
    ),
    Mechanism(
        "causal_positions_in_attention",
        positional_attention,
        {**_SELF, "query_positions": "T N H", "key_positions": "T 1 H"},
        settings={"is_causal": True},
        sizes=_GROUPED,
        outputs=("B T N Hv",),
        causal="T",
        loose=(("query", "T"),),
        blockwise=True,
        oracle="tests/kernels/test_position_encodings.py::test_positions_in_attention_are_the_equation",
        grows=("T",),
    ),
    Mechanism(
        "rotary",
        rotary,
        {"x": "B T N H", "positions": "int T"},
        sizes={"H": 6},
        draw={"positions": _positions},
        outputs=("B T N H",),
        permutable=("B", "T", "N"),
        causal="T",
        cached=_each(rotary, "x", "positions"),
        oracle="tests/kernels/test_rotary.py::test_rotary_is_a_complex_product",
        grows=("T",),
    ),
    Mechanism(
        "partial_rotary",
        rotary,
        {"x": "B T N H", "positions": "int T"},
        settings={"width": 4, "halves": True},
        draw={"positions": _positions},
        outputs=("B T N H",),
        permutable=("B", "T", "N"),
        causal="T",
        cached=_each(rotary, "x", "positions"),
        oracle="tests/kernels/test_rotary.py::test_halves_are_those_of_llama_and_the_rest_passes",
        grows=("T",),
    ),
)

_BIASES = (
    Mechanism(
        "shaw",
        relative_attention,
        {**_HEADS, "key_table": "R H", "value_table": "P Hv", "mask": "bool B 1 1 S"},
        sizes={**_GROUPED, "R": 7, "P": 11},
        cached=_offset(relative_attention, lambda query, **inputs: 0),
        oracle="tests/kernels/test_relative.py::test_relative_attention_is_the_equation",
        **_MASKED,
    ),
    Mechanism(
        "causal_shaw",
        relative_attention,
        {**_SELF, "key_table": "R H", "value_table": "P Hv", "mask": "bool 1 1 T T"},
        sizes={**_GROUPED, "R": 7, "P": 11},
        draw={"mask": _causal},
        outputs=("B T N Hv",),
        causal="T",
        oracle="tests/kernels/test_relative.py::test_relative_attention_is_the_equation",
        grows=("T",),
    ),
    Mechanism(
        "t5_bias",
        t5_relative_bias,
        {"table": "R N", "query_offset": "int"},
        settings={**_LENGTHS, "bidirectional": True, "max_distance": 9},
        sizes={"R": 14},
        draw=_OFFSET,
        outputs=("1 N T S",),
        permutable=("N",),
        cached=_bias_rows(t5_relative_bias),
        oracle="tests/kernels/test_relative.py::test_t5_bias_looks_each_pair_up_and_its_gradient_counts_them",
    ),
    Mechanism(
        "t5_bias_by_distance",
        t5_distance_bias,
        {"table": "R N", "query_offset": "int"},
        settings={**_LENGTHS, "bidirectional": False, "max_distance": 17},
        sizes={"R": 14, "X": 23},
        draw=_OFFSET,
        outputs=("N X",),
        permutable=("N",),
        oracle="tests/kernels/test_relative.py::test_t5_bias_looks_each_pair_up_and_its_gradient_counts_them",
    ),
    Mechanism(
        "alibi",
        alibi_bias,
        {"query_offset": "int"},
        settings={**_LENGTHS, "num_heads": 3},
        draw=_OFFSET,
        outputs=("1 N T S",),
        cached=_bias_rows(alibi_bias),
        oracle="tests/kernels/test_alibi.py::test_the_bias_is_the_released_codes",
    ),
    Mechanism(
        "alibi_by_distance",
        alibi_distance_bias,
        {"query_offset": "int"},
        settings={**_LENGTHS, "num_heads": 3, "bidirectional": True},
        sizes={"X": 23},
        draw=_OFFSET,
        outputs=("N X",),
        oracle="tests/kernels/test_alibi.py::test_the_bias_by_distance_is_every_pairs",
    ),
)

_RECURRENT = (
    Mechanism(
        "transformer_xl",
        transformer_xl_attention,
        {**_HEADS, "relative_key": "P N H", **_XL, "mask": "bool B 1 1 S"},
        sizes={**_GROUPED, "P": 13},
        refuses_empty=("S",),  # the queries are the last of the keys
        cached=_offset(transformer_xl_attention, lambda query, key, **inputs: key.shape[1] - query.shape[1]),
        oracle="tests/kernels/test_transformer_xl.py::test_transformer_xl_is_the_equation",
        **_MASKED,
    ),
    Mechanism(
        "transformer_xl_without_memory",
        transformer_xl_attention,
        {**_SELF, "relative_key": "T N H", **_XL},
        sizes=_GROUPED,
        outputs=("B T N Hv",),
        causal="T",
        cached=_offset(transformer_xl_attention, lambda query, **inputs: 0),
        loose=(("query", "T"),),
        oracle="tests/kernels/test_transformer_xl.py::test_transformer_xl_is_the_equation",
        grows=("T",),
    ),
    Mechanism(
        "segment_memory",
        extend_with_memory,
        {"memory": "B M D", "x": "B T D"},
        sizes={"M": 3, "P": 14},
        outputs=("B P D",),
        flat={"memory": "the gradient stops at the segment's start"},
        no_finite_differences="the memory's gradient is zero by definition, not that of its values",
        permutable=("B", "D"),
        oracle="tests/kernels/test_transformer_xl.py::test_segments_with_memory_are_one_pass_under_a_mask",
        grows=("T",),
    ),
)

_TREES = (
    Mechanism(
        "structural_depths",
        structural_depths,
        {"heads": "int B T"},
        draw={"heads": _trees},
        outputs=("B T",),
        permutable=("B",),
        oracle="tests/kernels/test_structural.py::test_depths_and_distances_are_those_of_a_walk",
        grows=("T",),
    ),
    Mechanism(
        "structural_distances",
        structural_distances,
        {"heads": "int B T"},
        draw={"heads": _trees},
        outputs=("B T T",),
        permutable=("B",),
        oracle="tests/kernels/test_structural.py::test_depths_and_distances_are_those_of_a_walk",
        grows=("T",),
    ),
    Mechanism(
        "structural_encoding",
        structural_encoding,
        {"sequential": "1 T P", "structural": "B T Q", "sequential_weight": "P D", "structural_weight": "Q D"},
        sizes={"P": 7, "Q": 5},
        outputs=("B T D",),
        permutable=("T", "D", "P", "Q"),
        causal="T",
        cached=_each(structural_encoding, "sequential", "structural"),
        oracle="tests/kernels/test_structural.py::test_the_absolute_encoding_is_a_tanh_of_two_projections",
        grows=("T",),
    ),
    Mechanism(
        "structural_attention",
        structural_attention,
        {**_HEADS, "distances": "int B T S", "key_table": "R H", "value_table": "P Hv", "mask": "bool B 1 1 S"},
        sizes={**_GROUPED, "R": 7, "P": 5},
        draw={"distances": lambda random, shape: random.integers(-5, 6, shape)},
        permutable=("T", "S"),
        cached=_each(structural_attention, "query", "distances"),
        oracle="tests/kernels/test_structural.py::test_structural_attention_is_the_equation",
        **_MASKED,
    ),
)

MECHANISMS = _ENCODINGS + _INSIDE + _BIASES + _RECURRENT + _TREES

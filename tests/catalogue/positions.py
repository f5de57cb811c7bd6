"""Positions: encodings, rotations and biases, and the ways to use them in attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
    clipped_bias,
    clipped_distance_bias,
    concatenate_positions,
    contextual_attention,
    extend_with_memory,
    fire_bias,
    kerple_bias,
    kerple_distance_bias,
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
    xpos,
    yarn_rotary,
)
from tests.catalogue.mechanism import Mechanism
from tests.catalogue.stepping import by_steps


def _each(function: Callable[..., Array], *along: str, axis: int = 1) -> Callable[..., Array]:
    """`function` for one position at a time. The inputs in `along` are cut to it (positions [T] along their axis 0)."""

    def one_by_one(**inputs: Array) -> Array:
        length = inputs[along[0]].shape[axis]
        cut = lambda name, i: (slice(None),) * (axis if inputs[name].ndim > 1 else 0) + (slice(i, i + 1),)
        outputs = [
            function(**{**inputs, **{name: inputs[name][cut(name, i)] for name in along}}) for i in range(length)
        ]
        return jnp.concatenate(outputs, axis=axis)

    return one_by_one


def _offset(function: Callable[..., Array], start: Callable[..., int | Array]) -> Callable[..., Array]:
    """`function` for one query at a time, with its position as query_offset: start(inputs) + i."""

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
    """Random trees over shuffled words: the head of each word is an earlier one, and the first word is the root."""
    heads = np.full(shape, -1)
    for tree in heads.reshape(-1, shape[-1]):
        order = random.permutation(shape[-1])
        for n in range(1, shape[-1]):
            tree[order[n]] = order[random.integers(n)]
    return heads


def _causal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.tril(np.ones(shape[-2:], bool))[None, None]


def _positive(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.random(shape) + 0.3


_OFFSET = {"query_offset": lambda random, shape: np.array(5)}
_TERMS = "logit_terms::a_term_is_that_of_the_loops_also_in_packed_rows"
_LENGTHS = {"query_length": 11, "key_length": 13}
_ENCODED = "position_encodings::concatenation_is_a_sum_of_projections_and_addition_the_tied_case"
_GROUPED = {"N": 6, "K": 3, "Hv": 7}
_INSIDE = partial(
    Mechanism,
    positional_attention,
    sizes=_GROUPED,
    blockwise=True,
    oracle="position_encodings::positions_in_attention_are_the_equation",
)
_ROTARY = partial(
    Mechanism,
    rotary,
    draw={"positions": _positions},
    permutable=("B", "T", "N"),
    causal="T",
    cached=_each(rotary, "x", "positions"),
)
_SHAW = partial(
    Mechanism,
    relative_attention,
    without="query_offset",
    sizes={**_GROUPED, "R": 7, "P": 11},
    oracle="relative::relative_attention_is_the_equation",
)
_T5 = partial(
    Mechanism,
    sizes={"buckets": 14, "distances": 23},
    draw=_OFFSET,
    permutable=("N",),
    oracle="relative::t5_bias_looks_each_pair_up_and_its_gradient_counts_them",
)
_XL = partial(
    Mechanism,
    transformer_xl_attention,
    sizes={**_GROUPED, "P": 13},
    oracle="transformer_xl::transformer_xl_is_the_equation",
)
_TREE = partial(
    Mechanism,
    draw={"heads": _trees},
    permutable=("B",),
    oracle="structural::depths_and_distances_are_those_of_a_walk",
)

MECHANISMS = (
    Mechanism(
        no_positions,
        permutable=("T",),
        causal="T",
        cached=_each(no_positions, "x"),
        oracle="position_encodings::without_positions_only_causal_attention_knows_the_order",
    ),
    Mechanism(
        sinusoidal_at,
        "sinusoidal",
        settings={"width": 7},
        sizes={"D": 7},
        draw={"positions": lambda random, shape: random.integers(-9, 10**6, shape)},
        permutable=("B", "T"),
        cached=_each(sinusoidal_at, "positions"),
        oracle="position_encodings::sinusoids_at_any_position_are_the_equation",
    ),
    Mechanism(
        learned_positions,
        sizes={"P": 13},
        draw={"positions": lambda random, shape: random.integers(0, 13, shape)},
        permutable=("B", "T", "D"),
        cached=_each(learned_positions, "positions"),
        oracle="position_encodings::learned_positions_are_an_embedding",
    ),
    Mechanism(
        add_positions,
        "added_positions",
        permutable=("B", "T", "D"),
        causal="T",
        cached=_each(add_positions, "x", "encoding"),
        oracle=_ENCODED,
    ),
    Mechanism(
        concatenate_positions,
        "concatenated_positions",
        {"encoding": "1 T P"},
        sizes={"P": 7, "DP": 24},
        permutable=("T",),
        causal="T",
        cached=_each(concatenate_positions, "x", "encoding"),
        oracle=_ENCODED,
    ),
    Mechanism(
        project_concatenated,
        "projected_concatenation",
        {"encoding": "1 T P"},
        sizes={"P": 7, "DP": 24, "O": 5},
        permutable=("T", "O"),
        causal="T",
        cached=_each(project_concatenated, "x", "encoding"),
        oracle=_ENCODED,
    ),
    _INSIDE("positions_in_attention", {"key_positions": "S 1 H"}, permutable=("T", "S")),
    _INSIDE(
        "causal_positions_in_attention",
        {"key_positions": "T 1 H"},
        without="value_positions mask",
        itself=True,
        settings={"is_causal": True},
        causal="T",
        loose=(("query", "T"),),
    ),
    _ROTARY(sizes={"H": 6}, oracle="rotary::rotary_is_a_complex_product"),
    _ROTARY(
        "partial_rotary",
        settings={"width": 4, "halves": True},
        oracle="rotary::halves_are_those_of_llama_and_the_rest_passes",
    ),
    Mechanism(
        yarn_rotary,
        "yarn",
        settings={"factor": 4, "original_length": 32},
        sizes={"H": 6},
        draw={"positions": _positions},
        permutable=("B", "T", "N"),
        causal="T",
        cached=_each(yarn_rotary, "x", "positions"),
        oracle="rotary_scaling::frequencies_are_those_of_transformers",
    ),
    _SHAW("shaw", cached=_offset(relative_attention, lambda query, **inputs: 0)),
    _SHAW(
        "causal_shaw",
        {"mask": "bool 1 1 T T"},
        itself=True,
        draw={"mask": _causal},
        causal="T",
        breaks=("padding", "empty"),
    ),
    _T5(
        t5_relative_bias,
        "t5_bias",
        settings={**_LENGTHS, "bidirectional": True, "max_distance": 9},
        cached=_bias_rows(t5_relative_bias),
    ),
    _T5(
        t5_distance_bias,
        "t5_bias_by_distance",
        settings={**_LENGTHS, "bidirectional": False, "max_distance": 17},
    ),
    Mechanism(
        alibi_bias,
        "alibi",
        settings={**_LENGTHS, "num_heads": 3},
        draw=_OFFSET,
        cached=_bias_rows(alibi_bias),
        oracle="alibi::the_bias_is_the_released_codes",
    ),
    Mechanism(
        alibi_distance_bias,
        "alibi_by_distance",
        settings={**_LENGTHS, "num_heads": 3, "bidirectional": True},
        sizes={"distances": 23},
        draw=_OFFSET,
        oracle="alibi::the_bias_by_distance_is_every_pairs",
    ),
    Mechanism(
        clipped_bias,
        "relative_bias",
        settings=_LENGTHS,
        draw=_OFFSET,
        permutable=("N",),
        cached=_bias_rows(clipped_bias),
        oracle="logit_terms::clipped_distances_index_the_table",
    ),
    Mechanism(
        clipped_distance_bias,
        "relative_bias_by_distance",
        settings=_LENGTHS,
        sizes={"distances": 23},
        draw=_OFFSET,
        permutable=("N",),
        oracle="logit_terms::clipped_distances_index_the_table",
    ),
    Mechanism(
        kerple_bias,
        "kerple",
        settings=_LENGTHS,
        draw={**_OFFSET, "r1": _positive, "r2": _positive},
        permutable=("N",),
        cached=_bias_rows(kerple_bias),
        oracle="logit_terms::kerple_is_its_kernel_of_every_pair",
    ),
    Mechanism(
        kerple_distance_bias,
        "kerple_power_by_distance",
        settings={**_LENGTHS, "form": "power"},
        sizes={"distances": 23},
        draw={**_OFFSET, "r1": _positive, "r2": _positive},
        permutable=("N",),
        oracle="logit_terms::kerple_is_its_kernel_of_every_pair",
    ),
    Mechanism(
        fire_bias,
        "fire",
        settings=_LENGTHS,
        sizes={"F": 7},
        draw={**_OFFSET, "slope": _positive, "threshold": lambda random, shape: 7 + random.random(shape)},
        without="mask",
        outputs=("1 N T S",),
        permutable=("N", "F"),
        cached=_bias_rows(fire_bias),
        oracle=_TERMS,
    ),
    Mechanism(
        contextual_attention,
        "contextual",
        without="query_offset",
        itself=True,
        settings={"is_causal": True},
        sizes={**_GROUPED, "P": 4},
        causal="T",
        loose=(("query", "T"),),
        cached=by_steps(contextual_attention),
        oracle=_TERMS,
    ),
    Mechanism(
        xpos,
        sizes={"K": 3, "H": 6},
        draw=_OFFSET,
        permutable=("B",),
        oracle="rotary_scaling::xpos_is_a_rotation_with_decay",
    ),
    _XL(
        "transformer_xl",
        {"relative_key": "P N H"},
        without="query_offset",
        refuses_empty=("S",),  # the queries are the last positions of the keys
        cached=_offset(transformer_xl_attention, lambda query, key, **inputs: key.shape[1] - query.shape[1]),
    ),
    _XL(
        "transformer_xl_without_memory",
        without="mask query_offset",
        itself=True,
        causal="T",
        cached=_offset(transformer_xl_attention, lambda query, **inputs: 0),
        loose=(("query", "T"),),
    ),
    Mechanism(
        extend_with_memory,
        "segment_memory",
        sizes={"M": 3, "S": 14},
        flat={"memory": "the gradient stops at the segment's start"},
        no_finite_differences="the memory's gradient is zero by definition, not that of its values",
        permutable=("B", "D"),
        oracle="transformer_xl::segments_with_memory_are_one_pass_under_a_mask",
    ),
    _TREE(structural_depths),
    _TREE(structural_distances),
    Mechanism(
        structural_encoding,
        inputs={"sequential": "1 T P"},
        sizes={"P": 7, "Q": 5},
        permutable=("T", "D", "P", "Q"),
        causal="T",
        cached=_each(structural_encoding, "sequential", "structural"),
        oracle="structural::the_absolute_encoding_is_a_tanh_of_two_projections",
    ),
    Mechanism(
        structural_attention,
        sizes={**_GROUPED, "R": 7, "P": 5},
        draw={"distances": lambda random, shape: random.integers(-5, 6, shape)},
        permutable=("T", "S"),
        cached=_each(structural_attention, "query", "distances"),
        oracle="structural::structural_attention_is_the_equation",
    ),
)

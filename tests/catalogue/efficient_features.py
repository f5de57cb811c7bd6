"""Attention cheaper than quadratic by features of queries and keys, by hashing them, by sorting blocks of them.

Reversible layers, which the Reformer needs for its memory, stand here too.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from attention_research.kernels import dot_product_attention, linear_attention, performer_attention
from attention_research.kernels.efficient import (
    linear_attention_step,
    lsh_attention,
    no_sums,
    performer_attention_step,
    reversible_layers,
    sinkhorn_attention,
)
from attention_research.kernels.shapes import check_shapes
from tests.catalogue.mechanism import Empty, Mechanism

_FULL = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv", "mask": "bool B S"}
_CAUSAL = {"query": "B T N H", "key": "B T K H", "value": "B T K Hv", "mask": "bool B T"}
_SIZES = {"N": 6, "K": 3, "Hv": 7, "M": 17}
_LAWS: dict[str, Any] = dict(
    outputs=("B T N Hv",), sizes=_SIZES, empty=Empty("mask", np.s_[0], np.s_[0]), blockwise=True
)
_FULL_LAWS: dict[str, Any] = dict(**_LAWS, permutable=("B", "T", "S"), padding=("mask", "S"), grows=("T", "S"))
_CAUSAL_LAWS: dict[str, Any] = dict(**_LAWS, permutable=("B",), padding=("mask", "T"), causal="T", grows=("T",))
_CHUNKS = {"is_causal": True, "chunk_size": 4}
_LINEAR = "tests/kernels/test_linear_attention.py::test_linear_attention_is_the_equation"
_PERFORMER = "tests/kernels/test_linear_attention.py::test_performer_is_the_equation"

_LSH: dict[str, Any] = dict(
    inputs={"query": "B T N H", "value": "B T N Hv", "buckets": "int B T N R", "mask": "bool B T"},
    outputs=("B T N Hv",),
    sizes={"R": 3, "Hv": 7},
    draw={"buckets": lambda random, shape: random.integers(0, 4, shape)},
    permutable=("B", "N"),
    padding=("mask", "T"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    blockwise=True,
    grows=("T",),
    oracle="tests/kernels/test_reformer.py::test_lsh_attention_is_the_equation_over_the_same_pattern",
)
#: No axis grows by itself: with the length grow the blocks, and the scores with their square.
_SINKHORN: dict[str, Any] = dict(
    inputs={"query": "B T N H", "key": "B T K H", "value": "B T K Hv", "scores": "B K C C", "mask": "bool B T"},
    outputs=("B T N Hv",),
    sizes={"N": 6, "K": 3, "Hv": 7, "C": 4},
    permutable=("B",),
    padding=("mask", "T"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    blockwise=True,
    oracle="tests/kernels/test_sinkhorn.py::test_sinkhorn_attention_is_the_equation",
)


def _one_position_at_a_time(step, width):
    def cached(query, key, value, mask, features=None, is_causal=True, chunk_size=1):
        more = () if features is None else (features,)
        sums = no_sums(key.shape[0], key.shape[2], key.shape[-1] if features is None else width, value.shape[-1])

        def over(sums, x):
            return step(sums, *x[:3], *more, mask=x[3])

        return lax.scan(over, sums, jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), (query, key, value, mask)))[
            1
        ].swapaxes(0, 1)

    return cached


def _causal_attention(weight, x):
    heads = jnp.einsum("BTD,DE->BTE", x, weight)[:, :, None]
    return dot_product_attention(heads, heads, heads, is_causal=True)[:, :, 0]


def _one_layer(weight, x):
    return jnp.tanh(jnp.einsum("BTD,DE->BTE", x, weight))


@functools.wraps(reversible_layers)
def _reversible_layers(*, x1, x2, f_weights, g_weights):
    """Attention and one layer, a matrix each."""
    check_shapes(x1=(x1, "B T D"), x2=(x2, "B T D"), f_weights=(f_weights, "L D D"), g_weights=(g_weights, "L D D"))
    return reversible_layers(x1, x2, (f_weights, g_weights), f=_causal_attention, g=_one_layer)


MECHANISMS = (
    Mechanism("linear_attention", linear_attention, _FULL, oracle=_LINEAR, **_FULL_LAWS),
    Mechanism(
        "linear_attention_causal",
        linear_attention,
        _CAUSAL,
        settings=_CHUNKS,
        cached=_one_position_at_a_time(linear_attention_step, None),
        oracle=_LINEAR,
        **_CAUSAL_LAWS,
    ),
    Mechanism("performer", performer_attention, {**_FULL, "features": "M H"}, oracle=_PERFORMER, **_FULL_LAWS),
    Mechanism(
        "performer_causal",
        performer_attention,
        {**_CAUSAL, "features": "M H"},
        settings=_CHUNKS,
        cached=_one_position_at_a_time(performer_attention_step, _SIZES["M"]),
        oracle=_PERFORMER,
        **_CAUSAL_LAWS,
    ),
    Mechanism("lsh_attention", lsh_attention, settings={"chunk_size": 4}, **_LSH),
    Mechanism(
        "lsh_attention_causal",
        lsh_attention,
        settings={"chunk_size": 4, "is_causal": True, "count_repeats": True, "chunks_before": 2},
        causal="T",
        **_LSH,
    ),
    Mechanism("sinkhorn", sinkhorn_attention, settings={"block_size": 3, "iterations": 2}, **_SINKHORN),
    Mechanism(
        "sinkhorn_causal",
        sinkhorn_attention,
        settings={"block_size": 3, "iterations": 2, "is_causal": True, "combine": "sum"},
        causal="T",
        **_SINKHORN,
    ),
    Mechanism(
        "reversible_layers",
        _reversible_layers,
        {"x1": "B T D", "x2": "B T D", "f_weights": "L D D", "g_weights": "L D D"},
        outputs=("B T D", "B T D"),
        sizes={"D": 7, "L": 3},
        draw={name: lambda random, shape: 0.3 * random.standard_normal(shape) for name in ("f_weights", "g_weights")},
        permutable=("B",),
        causal="T",
        no_bfloat16="layers are subtracted out again for the gradient: what rounding left differs",
        oracle="tests/kernels/test_reversible.py::test_reversible_layers_and_their_gradients_are_those_of_the_loop",
    ),
)

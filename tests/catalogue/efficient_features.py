"""Sub-quadratic attention by features of queries and keys, by hashing them, or by sorting blocks of them.

Reversible layers, which the Reformer needs for its memory, are also here.
"""

from __future__ import annotations

import functools
from functools import partial

import jax
import jax.numpy as jnp
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
from tests.catalogue.mechanism import Mechanism

_SIZES = {"N": 6, "K": 3, "Hv": 7, "M": 17}
_FULL = {"sizes": _SIZES, "permutable": ("B", "T", "S"), "blockwise": True}
_CAUSAL = {
    "itself": True,
    "settings": {"is_causal": True, "chunk_size": 4},
    "sizes": _SIZES,
    "permutable": ("B",),
    "causal": "T",
    "blockwise": True,
}
_LINEAR = partial(Mechanism, linear_attention, oracle="linear_attention::linear_attention_is_the_equation")
_PERFORMER = partial(
    Mechanism, performer_attention, first="query key value mask", oracle="linear_attention::performer_is_the_equation"
)
_LSH = partial(
    Mechanism,
    lsh_attention,
    sizes={"R": 3, "Hv": 7},
    draw={"buckets": lambda random, shape: random.integers(0, 4, shape)},
    permutable=("B", "N"),
    blockwise=True,
    oracle="reformer::lsh_attention_is_the_equation_over_the_same_pattern",
)
#: No axis grows alone: with the length, the number of blocks grows, and so do the scores, quadratically.
_SINKHORN = partial(
    Mechanism,
    sinkhorn_attention,
    without="random_key",
    sizes={"N": 6, "K": 3, "Hv": 7, "C": 4},
    permutable=("B",),
    breaks=("grows",),
    blockwise=True,
    oracle="sinkhorn::sinkhorn_attention_is_the_equation",
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
    """Attention and one layer, with one matrix each."""
    check_shapes(x1=(x1, "B T D"), x2=(x2, "B T D"), f_weights=(f_weights, "L D D"), g_weights=(g_weights, "L D D"))
    return reversible_layers(x1, x2, (f_weights, g_weights), f=_causal_attention, g=_one_layer)


MECHANISMS = (
    _LINEAR(**_FULL),
    _LINEAR("linear_attention_causal", cached=_one_position_at_a_time(linear_attention_step, None), **_CAUSAL),
    _PERFORMER("performer", **_FULL),
    _PERFORMER("performer_causal", cached=_one_position_at_a_time(performer_attention_step, _SIZES["M"]), **_CAUSAL),
    _LSH(settings={"chunk_size": 4}),
    _LSH(
        "lsh_attention_causal",
        settings={"chunk_size": 4, "is_causal": True, "count_repeats": True, "chunks_before": 2},
        causal="T",
    ),
    _SINKHORN("sinkhorn", settings={"block_size": 3, "iterations": 2}),
    _SINKHORN(
        "sinkhorn_causal",
        settings={"block_size": 3, "iterations": 2, "is_causal": True, "combine": "sum"},
        causal="T",
    ),
    Mechanism(
        _reversible_layers,
        inputs={"f_weights": "L D D", "g_weights": "L D D"},
        outputs=("B T D", "B T D"),
        sizes={"D": 7, "L": 3},
        draw={name: lambda random, shape: 0.3 * random.standard_normal(shape) for name in ("f_weights", "g_weights")},
        permutable=("B",),
        breaks=("grows",),
        causal="T",
        no_bfloat16="the gradient recomputes inputs by subtraction, with other rounding errors",
        oracle="reversible::reversible_layers_and_their_gradients_are_those_of_the_loop",
    ),
)

"""Exact dot-product attention in its implementations."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels import dot_product_attention, ring_attention
from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.shapes import check_shapes
from tests.catalogue.mechanism import Mechanism

_SIZES = {"N": 6, "K": 3, "Hv": 7}
_EXACT: dict[str, Any] = dict(
    function=dot_product_attention,
    without="bias scale query_seq_lengths key_value_seq_lengths distance_bias sink",
    outputs=("B T N Hv",),
    sizes=_SIZES,
    permutable=("T", "S"),
    oracle="attention::reference_and_blockwise_are_the_equation_and_gradients_agree",
)


def on_a_ring(
    devices: int, query: Array, key: Array, value: Array, mask: Array | None = None, **settings: Any
) -> Array:
    """`ring_attention` of whole arrays: the sequence is split into equal shares, and `vmap` replaces the devices.

    The gradient of each share is taken inside the ring, as under `shard_map`. Otherwise JAX would run the kernel's own
    gradient outside, where the ring's axis name is unknown.
    """
    axes = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv", "mask": "B S"}
    check_shapes(**{name: (x, of) for (name, of), x in zip(axes.items(), (query, key, value, mask), strict=True)})
    one = lambda shares: ring_attention(*shares[:3], mask=shares[3], axis_name="ring", **settings)
    around = lambda function: jax.vmap(function, axis_name="ring")
    cut = lambda arrays: jax.tree.map(lambda x: jnp.stack(jnp.split(x, devices, axis=1)), arrays)
    joined = lambda shares: jax.tree.map(lambda x: jnp.concatenate(list(x), axis=1), shares)

    def plain(arrays: tuple[Array | None, ...]) -> Array:
        return joined(around(one)(cut(arrays)))

    def backward(arrays: tuple[Array | None, ...], cotangent: Array) -> tuple[Any]:
        pulled = lambda shares, weight: jax.vjp(lambda *x: one((*x, shares[3])), *shares[:3])[1](weight)
        return ((*joined(around(pulled)(cut(arrays), cut(cotangent))), None),)

    whole = jax.custom_vjp(plain)
    whole.defvjp(lambda arrays: (plain(arrays), arrays), backward)
    return both_modes(whole, plain)((query, key, value, mask))


_THREE = functools.wraps(ring_attention)(functools.partial(on_a_ring, 3))
_RING = "ring::the_ring_is_attention_on_the_gathered_sequence"

MECHANISMS = (
    Mechanism(name="reference", settings={"implementation": "reference"}, **_EXACT),
    Mechanism(name="blockwise", settings={"implementation": "blockwise"}, blockwise=True, **_EXACT),
    Mechanism(
        name="causal",
        settings={"implementation": "blockwise", "is_causal": True},
        itself=True,
        causal="T",
        loose=(("query", "T"),),
        blockwise=True,
        **{**_EXACT, "without": _EXACT["without"] + " mask", "permutable": ()},
    ),
    Mechanism(_THREE, "ring", sizes={**_SIZES, "T": 12, "S": 15}, permutable=("T", "S"), blockwise=True, oracle=_RING),
    Mechanism(
        _THREE,
        "causal_ring",
        without="mask",
        itself=True,
        settings={"is_causal": True},
        sizes={**_SIZES, "T": 12},
        causal="T",
        blockwise=True,
        oracle=_RING,
    ),
)

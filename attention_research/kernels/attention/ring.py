"""Ring attention, Liu et al. 2023 (arXiv 2310.01889): exact attention over a sequence that is sharded over devices.

Each device keeps its queries. Keys and values are passed around the ring of devices, to the next neighbour in each
turn. Each turn updates the online softmax (Milakov and Gimelshein 2018), where x are the logits of the current keys:

    m' = max(m, max x),  l' = l e^(m - m') + sum e^(x - m'),  o' = o e^(m - m') + e^(x - m') V,  context = o / l

The gradient makes one more round. It recomputes P = exp(x - m) / l, and the gradients of keys and values are passed on
together with them. The memory of a device therefore depends on its share of the sequence, not on the number of devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import exp_below
from attention_research.kernels.attention.loop_carries import vary_together, varying_zeros
from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes

#: The number of queries of a head whose scores with the keys of a device are computed at a time.
BLOCK = 1024


class Ring(NamedTuple):
    """The static arguments."""

    axis_name: str
    devices: int
    is_causal: bool
    scale: float


class Held(NamedTuple):
    """The arrays that are passed around: key [B K S H], value [B K S Hv], and mask [B S] or None."""

    key: Array
    value: Array
    mask: Array | None


def ring_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    *,
    axis_name: str,
    is_causal: bool = False,
    scale: float | int | None = None,
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B T N Hv"]:
    """The result of `dot_product_attention` on the gathered sequence, for the T queries and S keys of each device.

    Call it inside `shard_map` (or `vmap`) over `axis_name`, whose devices hold the sequence in order. K divides N.
    `mask` is True for non-padding keys and is passed around with them. A query with no visible key gives zeros. Causal
    attention requires T = S. The default scale is 1/sqrt(H). Raises ValueError naming the argument and the axis.

    >>> from functools import partial
    >>> from jax.sharding import AxisType, PartitionSpec
    >>> mesh = jax.make_mesh((1,), ("sequence",), axis_types=(AxisType.Auto,))  # more give the same result
    >>> axes, x = PartitionSpec(None, "sequence"), jnp.ones((1, 4, 2, 3))
    >>> ring = partial(ring_attention, axis_name="sequence")
    >>> jax.shard_map(ring, mesh=mesh, in_specs=axes, out_specs=axes)(x, x, x).shape
    (1, 4, 2, 3)
    """
    sizes = check_shapes(
        query=(query, "B T N H"), key=(key, "B S K H"), value=(value, "B S K Hv"), mask=(mask, "B S")
    )  # fmt: skip
    B, T, N, H, K = (sizes[axis] for axis in "BTNHK")
    if N % K:
        raise ValueError(f"key: axis K of [B S K H]: expected a divisor of the query's {N} heads, got {K}")
    if is_causal and sizes["S"] != T:
        raise ValueError(f"key: axis S of [B S K H]: causal ring attention expects the query's {T}, got {sizes['S']}")
    if 0 in (B, T, sizes["S"]):
        return jnp.zeros((B, T, N, value.shape[3]), query.dtype)
    if isinstance(scale, jax.Array):
        raise ValueError("scale: expected a number; multiply the query by a scale that is an array")
    ring = Ring(axis_name, lax.axis_size(axis_name), is_causal, float(H**-0.5 if scale is None else scale))
    rows = next(size for size in range(min(T, BLOCK), 0, -1) if T % size == 0)
    # The queries in blocks, with heads before lengths: [C B K G t H].
    blocks = query.reshape(B, T // rows, rows, K, N // K, H).transpose(1, 0, 3, 4, 2, 5)
    held = Held(key.swapaxes(1, 2), value.swapaxes(1, 2), mask)
    blocks, held, _ = vary_together((blocks, held, lax.axis_index(axis_name)))
    attended = both_modes(functools.partial(_attend, ring), lambda query, held: _forward(ring, query, held)[0])
    context = attended(blocks, held)
    return context.transpose(1, 0, 4, 2, 3, 5).reshape(B, T, N, -1).astype(query.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(ring: Ring, query: Array, held: Held) -> Array:
    return _forward(ring, query, held)[0]


def _forward(ring: Ring, query: Array, held: Held) -> tuple[Array, tuple[Any, ...]]:
    """Returns (context [C B K G t Hv] in the accumulator's dtype, the residuals for the gradient).

    The residuals contain the largest logit of each row and the total of exp(logits - largest); they are 0 and 1 for a
    row with no visible key.
    """
    dtype, device = accumulator(query.dtype), _device(ring, query)
    nothing = varying_zeros(query[..., 0].astype(dtype))
    context = jnp.broadcast_to(nothing[..., None], (*nothing.shape, held.value.shape[-1]))

    def fold(part: tuple[Any, ...], held: Held, turn: Array) -> tuple[Array, ...]:
        block, query, (context, total, top) = part
        logits = _logits(ring, query, held, device, block, turn)
        highest = jnp.maximum(top, jnp.max(logits, axis=-1))
        shift = jnp.where(highest == -jnp.inf, jnp.zeros_like(highest), highest)
        exponentials, before = exp_below(logits, shift[..., None]), exp_below(top, shift)
        products = einsum("bkgts,bksh->bkgth", exponentials.astype(held.value.dtype), held.value)
        return context * before[..., None] + products, total * before + jnp.sum(exponentials, axis=-1), highest

    def at_one_turn(sums: tuple[Array, ...], held: Held, turn: Array) -> tuple[Array, ...]:
        blocks = jnp.arange(query.shape[0], dtype=jnp.int32)
        return lax.map(lambda part: fold(part, held, turn), (blocks, query, sums))

    def go_on(carry: tuple[Any, Held], turn: Array) -> tuple[tuple[Any, Held], None]:
        sums, held = carry
        after = _passed_on(held, ring)  # communicate while this turn is computed
        return (_where_seen(ring, device, turn, lambda sums: at_one_turn(sums, held, turn), sums), after), None

    carry = ((context, nothing, nothing - jnp.inf), held)
    (sums, last), _ = lax.scan(go_on, carry, jnp.arange(ring.devices - 1, dtype=jnp.int32))
    turn = jnp.asarray(ring.devices - 1, jnp.int32)
    context, total, top = _where_seen(ring, device, turn, lambda sums: at_one_turn(sums, last, turn), sums)
    empty = total == 0
    total = jnp.where(empty, jnp.ones_like(total), total)
    context = context / total[..., None]
    return context, (query, held, context, jnp.where(empty, jnp.zeros_like(top), top), total)


def _backward(ring: Ring, saved: tuple[Any, ...], cotangent: Array) -> tuple[Array, Held]:
    """P = exp(x - m) / l, dV = P^T dO, dS = P * (dO V^T - rowsum(dO * O)), dQ = dS K scale, dK = dS^T Q scale."""
    query, held, context, top, total = saved
    dtype, narrow, device = accumulator(query.dtype), query.dtype, _device(ring, query)
    along = jnp.sum(cotangent * context, axis=-1)

    def at_one_turn(gradients: tuple[Array, Array, Array], held: Held, turn: Array) -> tuple[Array, Array, Array]:
        def one(sums: tuple[Array, Array], part: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
            block, query, gradient, cotangent, top, total, along = part
            weights = exp_below(_logits(ring, query, held, device, block, turn), top[..., None]) / total[..., None]
            of_value = einsum("bkgts,bkgth->bksh", weights.astype(narrow), cotangent.astype(narrow))
            inner = einsum("bkgth,bksh->bkgts", cotangent.astype(narrow), held.value) - along[..., None]
            slopes = (weights * inner * jnp.asarray(ring.scale, dtype)).astype(narrow)
            of_key = einsum("bkgts,bkgth->bksh", slopes, query)
            return (sums[0] + of_key, sums[1] + of_value), gradient + einsum("bkgts,bksh->bkgth", slopes, held.key)

        of_query, of_key, of_value = gradients
        blocks = jnp.arange(query.shape[0], dtype=jnp.int32)
        parts = (blocks, query, of_query, cotangent, top, total, along)
        (of_key, of_value), of_query = lax.scan(one, (of_key, of_value), parts)
        return of_query, of_key, of_value

    def go_on(carry: tuple[Any, Held], turn: Array) -> tuple[tuple[Any, Held], None]:
        gradients, held = carry
        gradients = _where_seen(ring, device, turn, lambda sums: at_one_turn(sums, held, turn), gradients)
        of_query, *travelling = gradients
        return ((of_query, *_passed_on(travelling, ring)), _passed_on(held, ring)), None

    zeros = tuple(varying_zeros(x.astype(dtype)) for x in (query, held.key, held.value))
    ((of_query, of_key, of_value), _), _ = lax.scan(go_on, (zeros, held), jnp.arange(ring.devices, dtype=jnp.int32))
    return of_query.astype(narrow), Held(of_key.astype(narrow), of_value.astype(narrow), None)


_attend.defvjp(_forward, _backward)


def _passed_on(held: Any, ring: Ring) -> Any:
    """Passes arrays to the next device; returns those of the previous device."""
    around = [(device, (device + 1) % ring.devices) for device in range(ring.devices)]
    return jax.tree.map(lambda x: lax.ppermute(x, ring.axis_name, around), held)


def _device(ring: Ring, query: Array) -> Array:
    """The index of this device in the ring, with an artificial dependency on the queries.

    JAX computes values that do not depend on differentiated inputs first and keeps them. Without the dependency, these
    would be the masks of all turns, whose memory grows with the ring. The added term is 0 unless the first value is
    NaN,
    which makes the output NaN anyway.
    """
    first = query[(0,) * query.ndim]
    return lax.axis_index(ring.axis_name) + (first != first).astype(jnp.int32)


def _where_seen(ring: Ring, device: Array, turn: Array, body: Callable[[Any], Any], sums: Any) -> Any:
    """body(sums), or the sums unchanged if causality hides all current keys from all queries."""
    if not ring.is_causal:
        return body(sums)
    return lax.cond((device - turn) % ring.devices <= device, body, lambda sums: sums, sums)


def _logits(ring: Ring, query: Array, held: Held, device: Array, block: Array, turn: Array) -> Array:
    """The logits [B K G t S] of one block of queries with the current keys after `turn` turns, -inf at masked keys."""
    logits = einsum("bkgth,bksh->bkgts", query, held.key)
    logits = logits * jnp.asarray(ring.scale, logits.dtype)
    if held.mask is not None:
        logits = jnp.where(held.mask[:, None, None, None, :], logits, -jnp.inf)
    if ring.is_causal:
        rows, length = query.shape[-2], held.key.shape[-2]
        first_row = device * length + block * rows
        first_column = (device - turn) % ring.devices * length
        row = first_row + jnp.arange(rows, dtype=jnp.int32)[:, None]
        column = first_column + jnp.arange(length, dtype=jnp.int32)[None, :]
        logits = jnp.where(column <= row, logits, -jnp.inf)
    return logits

"""xPos, Sun et al. 2022 (arXiv 2212.10554): rotary positions in which logit_ij decays,
sum_p zeta_p^((i - j) / 512) Re[q_ip conj(k_jp) e^(sqrt(-1) (i - j) theta_p)], zeta_p = (2p + 0.4 H) / (1.4 H).

Queries at position t are rotated and multiplied by zeta^((t - c) / 512), keys by zeta^((c - t) / 512). The centre c
does not change the logits and keeps the powers small; here it is the middle of the queries. For causal attention: the
power grows without bound for keys after the query.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.positions.rotary import rotary
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import symbolic

#: The largest query for which the powers leave room below the largest number; in float16 it is the root of that number.
ROOM = 1e6


def xpos(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    *,
    base: float = 10000.0,
    scale_base: float = 512.0,
    query_offset: int | Int[Array, ""] = 0,
) -> tuple[Float[Array, "B T N H"], Float[Array, "B S K H"]]:
    """Rotates and scales queries at positions query_offset + t and keys at positions s, in float32.

    H must be even. A cache holds the keys before this step, since the centre moves with the queries. Raises ValueError
    naming the argument and the axis, also if the powers of T positions would overflow (about 61,000 with the defaults).

    >>> query, key = xpos(jnp.ones((1, 2, 1, 2)), jnp.ones((1, 2, 1, 2)), scale_base=1.0)
    >>> print((query * key)[0, :, 0].sum(-1))  # no decay at distance 0
    [2. 2.]
    """
    offset = as_int32("query_offset", query_offset)
    sizes = check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), query_offset=(offset, ""))
    T, S, H = sizes["T"], sizes["S"], sizes["H"]
    if H % 2:
        raise ValueError(f"query: axis H of [B T N H]: expected an even number, got {H}")
    logs = np.log((np.arange(0, H, 2) + 0.4 * H) / (1.4 * H)) / scale_base
    largest = float(jnp.finfo(query.dtype).max)
    room = np.log(largest / min(ROOM, largest**0.5))
    longest = int(2 * room / np.abs(logs).max())
    if not symbolic(T) and T > longest:
        raise ValueError(f"query: axis T: with scale_base {scale_base:g} the powers allow {longest} positions, got {T}")

    def scaled(x: Array, positions: Array, sign: int) -> Array:
        dtype = accumulator(x.dtype)
        distance = sign * (positions - offset - T // 2)
        exponents = distance.astype(dtype)[:, None] * jnp.asarray(logs, dtype)
        if sign < 0 and later:
            exponents = jnp.minimum(exponents, jnp.asarray(room, dtype))
        powers = jnp.exp(exponents)
        turned = rotary(x.astype(dtype), positions, base=base)
        return (turned * jnp.repeat(powers, 2, axis=-1)[:, None]).astype(x.dtype)

    # Causal attention does not see keys after the last query, but their powers could overflow.
    later = not (isinstance(query_offset, int) and not symbolic(S) and not symbolic(T) and S <= T + query_offset)
    query_positions = offset + jnp.arange(T, dtype=jnp.int32)
    return scaled(query, query_positions, 1), scaled(key, jnp.arange(S, dtype=jnp.int32), -1)

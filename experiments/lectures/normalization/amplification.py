"""Growth of a small change of the first layer's weights through a deep network, and growth of its activations.

The network is a stack of dense layers h_l = act(N(h_{l-1} W_l)). N is the identity or layer norm without gain and bias;
the weights are normal with variance gain^2 / D. For a random direction dW of the first weights, the derivative dh_l of
every layer's output is computed exactly (by `jax.jvp`), and its amplification is

    (|dh_l| / |h_l|) / (|dW| / |W_1|),

the relative change of a layer's output divided by the relative change of the weights. Without amplification it stays
near that of layer 1 (order and chaos in random networks: Poole et al. 2016, arXiv 1606.05340).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "swish": jax.nn.swish,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
}


def outputs(
    weights: Float[Array, "L D D"], x: Float[Array, "B D"], activation: str, *, normalised: bool
) -> Float[Array, "L B D"]:
    """Returns the output of every layer."""

    def layer(x: Array, weight: Array) -> tuple[Array, Array]:
        y = x @ weight
        y = ACTIVATIONS[activation](jax.nn.standardize(y, epsilon=1e-6) if normalised else y)
        return y, y

    return jax.lax.scan(layer, x, weights)[1]


def amplification(
    weights: Float[Array, "L D D"], change: Float[Array, "D D"], x: Float[Array, "B D"], activation: str, *,
    normalised: bool,
) -> tuple[Float[Array, "L"], Float[Array, "L"]]:  # fmt: skip
    """Returns (the amplification, the root mean square of the activations) at every layer."""
    run = lambda first: outputs(weights.at[0].set(first), x, activation, normalised=normalised)
    found, moved = jax.jvp(run, (weights[0],), (change,))
    size = lambda y: jnp.sqrt(jnp.sum(jnp.square(y), axis=(1, 2)))
    relative = jnp.linalg.norm(change) / jnp.linalg.norm(weights[0])
    return size(moved) / size(found) / relative, jnp.sqrt(jnp.mean(jnp.square(found), axis=(1, 2)))


def drawn(
    key: Key[Array, ""], activation: str, *, gain: float, depth: int, width: int, samples: int, normalised: bool
) -> tuple[Float[Array, "L"], Float[Array, "L"]]:
    """Computes `amplification` for a random network, a random change and random inputs."""
    first, second, third = jax.random.split(key, 3)
    weights = jax.random.normal(first, (depth, width, width)) * gain * width**-0.5
    change, x = jax.random.normal(second, (width, width)), jax.random.normal(third, (samples, width))
    return amplification(weights, change, x, activation, normalised=normalised)


def measure_amplification(
    *, activation: str, normalised: bool, gains: Sequence[float], depth: int, width: int, samples: int, seed: int,
    **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measures amplification and range by gain and layer.

    "amplified" (as a multiple of the first layer's) and "ranges" are lists by gain and layer. "last_amplified" and
    "growth" are lists by gain: the last layer's amplification and range as multiples of the first layer's (None where a
    number is not finite).
    """
    sizes: dict[str, Any] = {"depth": depth, "width": width, "samples": samples, "normalised": normalised}
    run = jax.jit(lambda key, gain: drawn(key, activation, gain=gain, **sizes))
    found: dict[str, list[Any]] = {"amplified": [], "ranges": [], "last_amplified": [], "growth": []}
    for gain in gains:
        relative, ranges = (np.asarray(x, np.float64) for x in run(jax.random.key(seed), gain))
        found["amplified"].append([_number(x) for x in relative / relative[0]])
        found["ranges"].append([_number(x) for x in ranges])
        found["last_amplified"].append(_number(relative[-1] / relative[0]))
        found["growth"].append(_number(ranges[-1] / ranges[0]))
    return {**found, "amplification": found["last_amplified"][-1], "range": found["growth"][-1]}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

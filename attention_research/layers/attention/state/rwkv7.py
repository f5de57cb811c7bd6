"""RWKV-7, Peng et al. 2025 (arXiv 2503.14456), section 4:
S_t = diag(w_t) S_(t-1) - (a_t kappa_t)^T (kappa_t S_(t-1)) + k_t^T v_t, o_t = r_t S_t.

Each projection reads its own mixture x_t + mu (x_(t-1) - x_t) of two positions:

    r, k, v = x_r W_r, x_k W_k, x_v W_v          kappa = k k_k, divided by its norm      k <- k (1 + (a - 1) k_a)
    log w = -e^(-1/2) sigmoid(w_0 + tanh(x_w A_w) B_w)      a = sigmoid(a_0 + x_a A_a B_a)      g = sigmoid(x_g A_g) B_g
    y = (LayerNorm of each head o + (sum r k r_k) v) g W_o

All layers but the first mix their values with those of the first layer:

    v <- v + sigmoid(v_0 + x_v A_v B_v) (v_first - v)

Starts are those of the released code (RWKV-LM, `RWKV_Tmix_x070`). Those of mu, w_0 and the gain of the norm depend on
the number of the layer. A is 0, B orthogonal times 0.1, W_o 0. W_r, W_v and W_k are orthogonal (W_k times 0.1), as in
flash-linear-attention; the released code draws them from a uniform distribution.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import layer_norm
from attention_research.kernels.precision import accumulator
from attention_research.kernels.projection import project
from attention_research.layers.attention.state.state_attention import At, Inputs, Places, StateAttention
from attention_research.layers.attention.where import Mask
from attention_research.signatures import Constructor, Positive

#: The exponents of the channel's number in the starts of mu, for r, w, k, v, a, g.
EXPONENTS = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)


class LowRank(nnx.Module):
    """act(x A) B, with A [D R] at 0 and B [R C] orthogonal times 0.1 max(1, R / C)^(1/2)."""

    def __init__(self, width: int, rank: int, out: int, *, rngs: nnx.Rngs):
        self.down_kernel = nnx.Param(jnp.zeros((width, rank), jnp.float32))
        start = jax.nn.initializers.orthogonal(0.1 * max(1, rank / out) ** 0.5)
        self.up_kernel = nnx.Param(start(rngs.params(), (rank, out), jnp.float32))

    def __call__(self, x: Array, activation: Any = lambda x: x) -> Array:
        return project(activation(project(x, self.down_kernel[...])), self.up_kernel[...])


class RWKV7(StateAttention):
    """The time mixing of RWKV-7. `rank` is the rank of the projections of w and a; None means 2.5 sqrt(width).

    `gate_rank` is the rank of the gate's projection; None means 5 sqrt(width). `value_rank` is that of the share of the
    first layer's values; None means 1.7 sqrt(width). All are rounded to multiples of 32. The first layer of a stack is
    of this class, the others are of the class `RWKV7Above`.
    """

    cost = ("N*H*Hv + D", 1)
    norm_over, options = "all", {"scale": 1.0}

    def __init__(
        self,
        *,
        rank: Positive | None = None,
        gate_rank: Positive | None = None,
        value_rank: Positive | None = None,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        del value_rank  # it belongs to the layers above
        super().__init__(convolution_width=0, use_bias=False, rngs=rngs, **inherited)
        D, (keys, values) = self.width, self.project_widths()
        for linear, scale in ((self.query, 1.0), (self.key, 0.1), (self.value, 1.0)):
            start = jax.nn.initializers.orthogonal(scale)
            linear.kernel = nnx.Param(start(rngs.params(), linear.kernel.shape, jnp.float32))
        self.decay = LowRank(D, ranked(rank, 2.5, D), keys, rngs=rngs)
        self.rate = LowRank(D, ranked(rank, 2.5, D), keys, rngs=rngs)
        self.gating = LowRank(D, ranked(gate_rank, 5.0, D), values, rngs=rngs)
        line, curve = along(keys), zigzag(keys, self.head_width)
        self.rate_bias = nnx.Param(-0.19 + 0.3 * curve + 0.4 * line)
        self.removal = nnx.Param(0.71 - 0.1 * line)  # k_k
        self.replacement = nnx.Param(jnp.full((keys,), 1.02, jnp.float32))  # k_a
        self.bonus = nnx.Param(jnp.full((keys,), -0.04, jnp.float32))  # r_k
        self.norm_bias = nnx.Param(jnp.zeros((values,), jnp.float32))
        self.output.kernel = nnx.Param(jnp.zeros((values, D), jnp.float32))
        self.start_in_layer(0, 1)

    @classmethod
    def by_layer(cls, attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
        """The first layer, and the layers above it."""
        above = [(attention.of(RWKV7Above, attention.settings), num_layers - 1)] if num_layers > 1 else []
        return [(attention, 1), *above]

    def start_in_layer(self, depth: Int[Array, ""] | int, num_layers: int) -> None:
        """The starts of mu, w_0 and the gain of the norm in layer `depth`, from 0."""
        D, (keys, values) = self.width, self.project_widths()
        later, rest = jnp.float32(depth) / max(num_layers - 1, 1), 1 - jnp.float32(depth) / num_layers
        channel = jnp.arange(D, dtype=jnp.float32) / D
        self.mix = nnx.Param(jnp.stack([1 - channel ** (exponent * rest) for exponent in EXPONENTS]))
        slope = -6 + 6 * (along(keys) + 0.5) ** (1 + later**0.3)
        self.decay_bias = nnx.Param(slope + 0.5 + 2.5 * zigzag(keys, self.head_width))
        gain = ((jnp.float32(depth) + 1) / num_layers) ** 0.7
        self.norm_scale = nnx.Param(jnp.broadcast_to(gain, (values,)))

    def _taps(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The input before the first position."""
        return {"previous": jnp.zeros((batch, 1, self.width), dtype)}

    def given(
        self, x: Array, taps: dict[str, Array], at: At, mask: Mask | None, where: Places
    ) -> tuple[Inputs, dict[str, Array]]:
        """Equations 3 to 14, and the output gate of equation 15."""
        now = x if where.real is None else jnp.where(where.real[..., None], x, jnp.zeros_like(x))
        previous = jnp.concatenate([taps["previous"], now[:, :-1]], axis=1)
        if where.reset is not None:
            previous = jnp.where(where.reset[..., None], jnp.zeros_like(x), previous)
        mixed = x[None] + self.mix[...].astype(x.dtype)[:, None, None] * (previous - x)[None]
        x_r, x_w, x_k, x_v, x_a, x_g = mixed
        split, wide = lambda a: self.heads(a, self.head_width), lambda a: a.astype(accumulator(x.dtype))
        bias = lambda parameter: wide(parameter[...])
        key, rate = wide(self.key(x_k)), jax.nn.sigmoid(wide(self.rate(x_a)) + bias(self.rate_bias))
        removal = split(key * bias(self.removal))
        removal = removal / jnp.sqrt(jnp.sum(removal * removal, axis=-1, keepdims=True) + 1e-12)
        log_decay = -math.exp(-0.5) * jax.nn.sigmoid(wide(self.decay(x_w, jnp.tanh)) + bias(self.decay_bias))
        return {
            "query": split(self.query(x_r)),
            "key": split((key * (1 + (rate - 1) * bias(self.replacement))).astype(x.dtype)),
            "value": self.heads(self.values(x_v, at), self.value_head_width),
            "log_decay": split(log_decay),
            "read": -removal,
            "write": removal * split(rate),
            "gate": self.gating(x_g, jax.nn.sigmoid),
        }, {"previous": now[:, -1:]}

    def values(self, x: Array, at: At) -> Array:
        """The values [B T C]."""
        del at
        return self.value(x)

    def hand_over(self, given: Inputs) -> dict[str, Array]:
        """The values of the first layer."""
        return {"value": given["value"]}

    def finish(self, context: Array, x: Array, given: Inputs) -> Array:
        """The norm of the heads, the bonus of the present position, the gate, and the projection."""
        unscaled = jnp.ones((self.value_head_width,), jnp.float32)
        normed = layer_norm(context, unscaled, jnp.zeros_like(unscaled), epsilon=64e-5)
        assert self.norm_scale is not None
        joined = normed.reshape(*x.shape[:2], -1) * self.norm_scale[...].astype(x.dtype)
        bonus = self.bonus[...].astype(x.dtype).reshape(self.num_heads, self.head_width)
        present = jnp.sum(given["query"] * given["key"] * bonus, axis=-1, keepdims=True) * given["value"]
        joined = joined + self.norm_bias[...].astype(x.dtype) + present.reshape(joined.shape)
        return self.output(joined * given["gate"])


class RWKV7Above(RWKV7):
    """A layer above the first, which mixes its values with those of the first layer."""

    takes_handed = True

    def __init__(self, *, value_rank: Positive | None = None, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        _, values = self.project_widths()
        self.share = LowRank(self.width, ranked(value_rank, 1.7, self.width), values, rngs=rngs)
        self.share_bias = nnx.Param(0.73 - 0.4 * along(values))

    def values(self, x: Array, at: At) -> Array:
        """The mixed values."""
        own = super().values(x, at)
        share = jax.nn.sigmoid(self.share(x) + self.share_bias[...].astype(x.dtype))
        return own + share * (at.handed["value"].reshape(own.shape) - own)

    def hand_over(self, given: Inputs) -> dict[str, Array]:
        """Nothing: the values of the first layer stay."""
        return {}


def ranked(given: int | None, times: float, width: int) -> int:
    """The rank of a projection: by default times sqrt(width), rounded to a multiple of 32."""
    return 32 * max(1, round(times * math.sqrt(width) / 32)) if given is None else given


def along(channels: int) -> Float[Array, "C"]:
    """A line from -1/2 to 1/2 over the channels."""
    return jnp.arange(channels, dtype=jnp.float32) / max(channels - 1, 1) - 0.5


def zigzag(channels: int, head_width: int) -> Float[Array, "C"]:
    """z |z|, where z goes from -1 to 1 over the channels of each head."""
    place = jnp.arange(channels, dtype=jnp.float32) % head_width
    z = (2 * place - (head_width - 1)) / max(head_width - 1, 1)
    return z * jnp.abs(z)

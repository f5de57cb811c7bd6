"""Monotonic attention, Raffel et al. 2017 (arXiv 1704.00784): trained in expectation, decoded from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import monotonic_alignment
from attention_research.kernels.selection import choosing_probability, monotonic_energy
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, average
from attention_research.layers.alignment.scores.score import weight
from attention_research.signatures import Given, NonNegativeFloat, Positive


class MonotonicAlignment(AlignmentModule):
    """Attention that moves monotonically through the source.

    With a key (training), it computes the expected alignment, with Gaussian noise of standard deviation `noise` added
    to the energies. Without a key, `test` chooses: "hard" stops at the first position, starting from the previous stop,
    whose energy is above 0; "soft" computes the expected alignment without noise. `mode` is passed to the kernel. The
    energy's offset is initialized to `offset`, and its hidden layer has `attention_width` units (None: query width).
    """

    def __init__(
        self,
        *,
        attention_width: Positive | None = None,
        noise: NonNegativeFloat = 1.0,
        offset: float = -1.0,
        mode: Literal["recursive", "parallel"] = "recursive",
        test: Literal["hard", "soft"] = "hard",
        query_width: Given[int],
        key_width: Given[int],
        rngs: nnx.Rngs,
    ):
        attention_width = query_width if attention_width is None else attention_width
        self.context_width, self.noise, self.mode, self.test = key_width, noise, mode, test
        self.query_weight = weight(rngs, attention_width, query_width)
        self.key_weight = weight(rngs, attention_width, key_width)
        self.bias = nnx.Param(jnp.zeros((attention_width,), jnp.float32))
        self.v = nnx.Param(jax.random.normal(rngs.params(), (attention_width,), jnp.float32))
        self.gain = nnx.Param(jnp.asarray(attention_width**-0.5, jnp.float32))
        self.offset = nnx.Param(jnp.asarray(offset, jnp.float32))

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """The state is the alignment of the previous step. Initially, all weight is on position 0."""
        hidden, real = memory["hidden"], memory["real"]
        first = jnp.zeros(real.shape, jnp.float32).at[:, 0].set(1.0)
        return {"values": hidden, "real": real}, {"previous": first}

    def energies(self, query: Float[Array, "B T Dq"], fixed: Arrays) -> Float[Array, "B T S"]:
        """The energies of all steps and positions."""
        parts = (self.query_weight, self.key_weight, self.bias, self.v, self.gain, self.offset)
        return monotonic_energy(query, fixed["values"], *(part[...].astype(query.dtype) for part in parts))

    def expected(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Float[Array, "B T S"], Arrays]:
        """Returns (the alignment of each step, the state after them)."""
        mask = fixed["real"]
        p = choosing_probability(self.energies(query, fixed), key, deviation=self.noise, mask=mask[:, None])
        mode = "hard" if key is None and self.test == "hard" else self.mode

        def advance(previous: Array, p: Array) -> tuple[Array, Array]:
            alignment = monotonic_alignment(p, previous, mode=mode, mask=mask)
            return alignment, alignment

        last, alignments = jax.lax.scan(advance, state["previous"], jnp.swapaxes(p, 0, 1))
        return jnp.swapaxes(alignments, 0, 1), {"previous": last}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """In hard mode, the context is the source state at the stop, or 0 if the process does not stop."""
        weights, state = self.expected(query, fixed, state, key)
        return average(weights, fixed["values"]), weights, state

"""Online decoding with monotonic attention (Raffel et al. 2017, arXiv 1704.00784, section 2.2), and its delay.

The model computes all energies at once and discards most of them. Here the energy of a source position is computed only
when the process reaches it. The process stops at the first energy above 0, beginning at the last stop, and later
positions are not read. With a forward encoder (`unidirectional`) and a decoder that starts from zeros, a target word
then does not depend on source words after the position at which it was generated. This property is called online.

The delay (Ma et al. 2019, arXiv 1810.08398, equation 9) is the average lag
`1 / tau sum_{i=1}^{tau} (g(i) - (i - 1) S / T)`. g(i) is the number of source tokens that are read before target token
i is generated, and tau is the first i with g(i) = S. It says by how many source tokens a model is behind one that keeps
pace with the source. A model that waits for the end of the source has S.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels import hard_monotonic_decode
from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.layers.alignment.mocha import MoChAAlignment
from attention_research.layers.alignment.monotonic import MonotonicAlignment
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, lengths
from attention_research.models.sequences import Sequence as Tokens
from attention_research.models.sequences import shift_right
from attention_research.tokens import PAD


class OnlineAlignment(AlignmentModule):
    """A trained monotonic (or chunkwise) alignment that computes energies one at a time.

    In `state`, "previous" is the last stop of each row (the length of the source if there was none), and "read" the
    number of energies computed so far.
    """

    def __init__(self, trained: MonotonicAlignment):
        self.trained: Any = trained
        self.context_width = trained.context_width
        self.chunk_size = trained.chunk_size if isinstance(trained, MoChAAlignment) else 1

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """The initial state: the process is at position 0 and has read nothing."""
        fixed, _ = self.trained.start(memory)
        zeros = jnp.zeros(memory["real"].shape[0], jnp.int32)
        return {**fixed, "lengths": lengths(memory["real"])}, {"previous": zeros, "read": zeros}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """Runs the steps one after the other. Weights are 0 except at the stop and in the chunk before it."""
        del key

        def advance(state: Arrays, query: Float[Array, "B Dq"]) -> tuple[Arrays, tuple[Array, Array]]:
            after, context, weights = jax.vmap(self._step)(query, fixed, state)
            return after, (context, weights)

        state, (context, weights) = jax.lax.scan(advance, state, jnp.swapaxes(query, 0, 1))
        return jnp.swapaxes(context, 0, 1), jnp.swapaxes(weights, 0, 1), state

    def _step(
        self, query: Float[Array, "Dq"], fixed: Arrays, state: Arrays
    ) -> tuple[Arrays, Float[Array, "C"], Float[Array, "S"]]:
        """Runs one step of one row."""

        def energy_at(position: Int[Array, ""]) -> Float[Array, ""]:
            one = jax.lax.dynamic_slice_in_dim(fixed["values"], position, 1)
            return self.trained.energies(query[None, None], {"values": one[None]})[0, 0, 0]

        position, read = hard_monotonic_decode(energy_at, state["previous"], fixed["lengths"])
        after = {"previous": position, "read": state["read"] + read}
        places = position - jnp.arange(self.chunk_size, dtype=jnp.int32)
        there = (places >= 0) & (position < fixed["lengths"])
        places = jnp.maximum(places, 0)
        if self.chunk_size == 1:
            shares = there.astype(jnp.float32)
        else:
            keys = jax.tree.map(lambda keys: keys[places], fixed["keys"])
            scores = self.trained.score(query[None, None], jax.tree.map(lambda keys: keys[None], keys))[0, 0]
            shares = softmax_or_zero(scores.astype(jnp.float32), there)
        values = fixed["values"]
        context = jnp.sum(shares[:, None].astype(values.dtype) * values[places], axis=0)
        return after, context, jnp.zeros(values.shape[0], jnp.float32).at[places].add(shares)


def online(model: Any) -> Any:
    """Replaces the alignment of the model's decoder by its online form.

    Raises ValueError for an alignment that is not monotonic.
    """
    if not isinstance(model.decoder.alignment, MonotonicAlignment):
        raise ValueError(f"{type(model.decoder.alignment).__name__} is not monotonic: it reads the whole source first")
    model.decoder.alignment = OnlineAlignment(model.decoder.alignment)
    return model


def positions(model: Any, source: Tokens, target: Int[Array, "B T"]) -> tuple[Int[Array, "B T"], Int[Array, "B T"]]:
    """Returns (the stop of an online model for each target token, the number of energies read until then), as a pure
    function.

    Targets are read as they are, with everything after their end.
    """

    def step(cache: Any, token: Int[Array, "B"]) -> tuple[Any, tuple[Array, Array]]:
        cache, _, _ = model.step(cache, token)
        looking = cache["state"]["alignment"]
        return cache, (looking["previous"], looking["read"])

    before = shift_right({"tokens": target})
    _, (stops, reads) = jax.lax.scan(step, model.start(model.encode(source), target.shape[1]), before.T)
    return stops.T, reads.T


def average_lag(read: Sequence[int], source_length: int) -> float:
    """The average lag of one sentence. `read[i]` is the number of source tokens read before target token i is
    generated.

    >>> average_lag([1, 2, 3, 4], 4), average_lag([4, 4, 4, 4], 4)
    (1.0, 4.0)
    """
    pace = source_length / len(read)
    tau = next((number for number, count in enumerate(read, start=1) if count >= source_length), len(read))
    return statistics.fmean(count - index * pace for index, count in enumerate(read[:tau]))


def delays(stops: Iterable[np.ndarray], target: Iterable[np.ndarray], source: Iterable[np.ndarray]) -> dict[str, float]:
    """Computes means over sentences, given as token ids [n T] and [n S] with end-of-sentence symbols.

    `average_lag` is in source tokens. `written_before_the_end` is the share of target tokens that are generated before
    the last source token is read. If the process finds no stop for a token, the whole source counts as read.
    """
    lags, early = [], []
    for stop, written, given in zip(stops, target, source, strict=True):
        length, size = int(np.sum(written != PAD)), int(np.sum(given != PAD))
        read = np.minimum(stop[:length] + 1, size)
        lags.append(average_lag(read.tolist(), size))
        early.append(float(np.mean(read < size)))
    return {"average_lag": statistics.fmean(lags), "written_before_the_end": statistics.fmean(early)}

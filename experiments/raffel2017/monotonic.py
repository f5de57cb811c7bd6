"""Monotonic attention as it is used online, Raffel et al. 2017 (arXiv 1704.00784), section 2.2, and how late it writes.

The model computes every energy at once and then drops most of them. Here a source position is looked at only when the
process has come to it: the first energy above 0 from the last stop on decides, and nothing behind it is read. With an
encoder that reads forward (`unidirectional`) and a decoder that starts from zeros, a target word then depends on no
source word behind the position where it was written; that is what online means.

Delay (Ma et al. 2019, arXiv 1810.08398, equation 9): average lag = 1 / tau sum_{i=1}^{tau} (g(i) - (i - 1) S / T). g(i)
is how many source tokens had been read when target token i was written, tau the first i with g(i) = S. It says how many
source tokens a writer is behind one that keeps pace with the source; one that waits for the end has S.
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
    """A trained monotonic (or chunkwise) alignment, its energies read one at a time.

    `state` is {"previous": where each row stopped last, its length where it found nothing; "read": energies so far}.
    """

    def __init__(self, trained: MonotonicAlignment):
        self.trained: Any = trained
        self.context_width = trained.context_width
        self.chunk_size = trained.chunk_size if isinstance(trained, MoChAAlignment) else 1

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Before the first step the process stands at position 0 and has read nothing."""
        fixed, _ = self.trained.start(memory)
        zeros = jnp.zeros(memory["real"].shape[0], jnp.int32)
        return {**fixed, "lengths": lengths(memory["real"])}, {"previous": zeros, "read": zeros}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """One step after the other; the weights are 0 but where the process stopped and in the chunk before it."""
        del key

        def advance(state: Arrays, query: Float[Array, "B Dq"]) -> tuple[Arrays, tuple[Array, Array]]:
            after, context, weights = jax.vmap(self._step)(query, fixed, state)
            return after, (context, weights)

        state, (context, weights) = jax.lax.scan(advance, state, jnp.swapaxes(query, 0, 1))
        return jnp.swapaxes(context, 0, 1), jnp.swapaxes(weights, 0, 1), state

    def _step(
        self, query: Float[Array, "Dq"], fixed: Arrays, state: Arrays
    ) -> tuple[Arrays, Float[Array, "C"], Float[Array, "S"]]:
        """One step of one row."""

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
    """The model, reading online from now on: its decoder's alignment is replaced. Raises ValueError for another one."""
    if not isinstance(model.decoder.alignment, MonotonicAlignment):
        raise ValueError(f"{type(model.decoder.alignment).__name__} is not monotonic: it reads the whole source first")
    model.decoder.alignment = OnlineAlignment(model.decoder.alignment)
    return model


def positions(model: Any, source: Tokens, target: Int[Array, "B T"]) -> tuple[Int[Array, "B T"], Int[Array, "B T"]]:
    """(where an online model stopped for each target token, energies that it had read by then); pure.

    Targets are read as they stand, what comes after their end with them.
    """

    def step(cache: Any, token: Int[Array, "B"]) -> tuple[Any, tuple[Array, Array]]:
        cache, _, _ = model.step(cache, token)
        looking = cache["state"]["alignment"]
        return cache, (looking["previous"], looking["read"])

    before = shift_right({"tokens": target})
    _, (stops, reads) = jax.lax.scan(step, model.start(model.encode(source), target.shape[1]), before.T)
    return stops.T, reads.T


def average_lag(read: Sequence[int], source_length: int) -> float:
    """Average lag of one sentence: `read[i]` source tokens had been read when target token i was written.

    >>> average_lag([1, 2, 3, 4], 4), average_lag([4, 4, 4, 4], 4)
    (1.0, 4.0)
    """
    pace = source_length / len(read)
    tau = next((number for number, count in enumerate(read, start=1) if count >= source_length), len(read))
    return statistics.fmean(count - index * pace for index, count in enumerate(read[:tau]))


def delays(stops: Iterable[np.ndarray], target: Iterable[np.ndarray], source: Iterable[np.ndarray]) -> dict[str, float]:
    """Means over sentences of token ids [n T] and [n S] with their ends: `average_lag`, in source tokens, and
    `written_before_the_end`, the share of target tokens that were written before the source's last token was read.

    A token for which the process found nothing has read everything.
    """
    lags, early = [], []
    for stop, written, given in zip(stops, target, source, strict=True):
        length, size = int(np.sum(written != PAD)), int(np.sum(given != PAD))
        read = np.minimum(stop[:length] + 1, size)
        lags.append(average_lag(read.tolist(), size))
        early.append(float(np.mean(read < size)))
    return {"average_lag": statistics.fmean(lags), "written_before_the_end": statistics.fmean(early)}

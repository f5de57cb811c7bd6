"""The loop of greedy decoding and sampling, which choose one token at a time and never revise it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attention_research.decoding.cache import batch_axes, repeat
from attention_research.decoding.hypotheses import Decoded, allowed_tokens, length_limits, number_of_rows
from attention_research.models.protocol import Generates
from attention_research.signatures import NonNegative, Positive
from attention_research.tokens import BOS, EOS, PAD


class _State(NamedTuple):
    step: Int[Array, ""]
    cache: PyTree
    last: Int[Array, "R"]
    tokens: Int[Array, "R T"]
    log_probabilities: Float[Array, "R"]
    lengths: Int[Array, "R"]
    done: Bool[Array, "R"]


class LeftToRight:
    """Takes a token at each position until EOS. A row at its limit (`length_limits`) takes EOS, with the model's
    log-probability.

    A subclass chooses the token in `choose`. PAD and BOS are never taken; probabilities are not renormalized.
    """

    def __init__(self, *, extra_length: NonNegative, num_samples: Positive = 1):
        self.extra_length = extra_length
        self.num_samples = num_samples

    def start(self, source: Mapping[str, Array]) -> Any:
        """A value that `choose` receives at every position, with one entry per row if it has rows; None by default."""
        del source

    def choose(self, log_probabilities: Float[Array, "R V"], given: Any, step: Int[Array, ""]) -> Int[Array, "R"]:
        """The tokens to take; log-probabilities are -inf for tokens that may not be taken."""
        raise NotImplementedError

    def __call__(self, model: Generates, source: Mapping[str, Array], *, max_length: int) -> Decoded:
        """Decodes `source` (tokens, segments, positions, or an image) to `max_length` tokens, including EOS. A pure
        function."""
        copies, batch = self.num_samples, number_of_rows(source)
        rows = batch * copies
        limits = jnp.repeat(length_limits(source, self.extra_length, max_length), copies)
        given = self.start(source)
        begin = lambda source: model.start(model.encode(source), max_length)
        cache = begin(source)
        if copies > 1:
            cache = repeat(cache, batch_axes(begin, source), copies)

        def body(state: _State) -> _State:
            cache, log_probabilities, _ = model.step(state.cache, state.last)
            at_limit = state.step + 1 >= limits
            allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)
            chosen = self.choose(jnp.where(allowed, log_probabilities, -jnp.inf), given, state.step).astype(jnp.int32)
            chosen = jnp.where(at_limit, EOS, chosen)
            gained = jnp.take_along_axis(log_probabilities, chosen[:, None], axis=1)[:, 0].astype(jnp.float32)
            token = jnp.where(state.done, PAD, chosen)
            return _State(
                step=state.step + 1,
                cache=cache,
                last=token,
                tokens=state.tokens.at[:, state.step].set(token),
                log_probabilities=state.log_probabilities + jnp.where(state.done, 0.0, gained),
                lengths=state.lengths + (~state.done).astype(jnp.int32),
                done=state.done | (chosen == EOS),
            )

        first = _State(
            step=jnp.int32(0),
            cache=cache,
            last=jnp.full(rows, BOS, jnp.int32),
            tokens=jnp.full((rows, max_length), PAD, jnp.int32),
            log_probabilities=jnp.zeros(rows, jnp.float32),
            lengths=jnp.zeros(rows, jnp.int32),
            done=jnp.zeros(rows, bool),
        )
        last = jax.lax.while_loop(lambda state: ~jnp.all(state.done), body, first)
        scores = last.log_probabilities.reshape(batch, copies)
        return Decoded(last.tokens.reshape(batch, copies, -1), scores, scores, last.lengths.reshape(batch, copies))

"""Greedy decoding: at each position the most probable token."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attention_research.decoding.hypotheses import Decoded, allowed_tokens, length_limits
from attention_research.registry import NonNegative
from attention_research.tokens import BOS, EOS, PAD


class _State(NamedTuple):
    step: Int[Array, ""]
    cache: PyTree
    last: Int[Array, "B"]
    tokens: Int[Array, "B T"]
    log_probabilities: Float[Array, "B"]
    lengths: Int[Array, "B"]
    done: Bool[Array, "B"]


class Greedy:
    """Takes the most probable token until EOS; a row at its limit (`length_limits`) takes EOS, at its true price.

    One hypothesis a row (K = 1), and its score is its log-probability: nothing is ranked, so there is no penalty.
    PAD and BOS are never taken. A row's result does not depend on the other rows nor on the padding.
    """

    def __init__(self, *, extra_length: NonNegative = 50):
        self.extra_length = extra_length

    def __call__(self, model: Any, source: dict[str, Int[Array, "B S"]], *, max_length: int) -> Decoded:
        """Decodes `source` (tokens, segments, positions) to at most `max_length` tokens, EOS included; pure."""
        batch = source["tokens"].shape[0]
        limits = length_limits(source, self.extra_length, max_length)

        def body(state: _State) -> _State:
            cache, log_probabilities, _ = model.step(state.cache, state.last)
            at_limit = state.step + 1 >= limits
            allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)
            best = jnp.argmax(jnp.where(allowed, log_probabilities, -jnp.inf), axis=-1).astype(jnp.int32)
            best = jnp.where(at_limit, EOS, best)
            gained = jnp.take_along_axis(log_probabilities, best[:, None], axis=1)[:, 0].astype(jnp.float32)
            token = jnp.where(state.done, PAD, best)
            return _State(
                step=state.step + 1,
                cache=cache,
                last=token,
                tokens=state.tokens.at[:, state.step].set(token),
                log_probabilities=state.log_probabilities + jnp.where(state.done, 0.0, gained),
                lengths=state.lengths + (~state.done).astype(jnp.int32),
                done=state.done | (best == EOS),
            )

        first = _State(
            step=jnp.int32(0),
            cache=model.start(model.encode(source), max_length),
            last=jnp.full(batch, BOS, jnp.int32),
            tokens=jnp.full((batch, max_length), PAD, jnp.int32),
            log_probabilities=jnp.zeros(batch, jnp.float32),
            lengths=jnp.zeros(batch, jnp.int32),
            done=jnp.zeros(batch, bool),
        )
        last = jax.lax.while_loop(lambda state: ~jnp.all(state.done), body, first)
        scores = last.log_probabilities[:, None]
        return Decoded(last.tokens[:, None], scores, scores, last.lengths[:, None])

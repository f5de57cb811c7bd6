"""Beam search, length penalty of Wu et al. 2016 (arXiv 1609.08144, equation 14), as Vaswani et al. 2017 use it."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attention_research.decoding import cache as rows
from attention_research.decoding.hypotheses import Decoded, allowed_tokens, length_limits, length_penalty
from attention_research.registry import NonNegative, NonNegativeFloat, Positive
from attention_research.tokens import BOS, EOS, PAD


class _State(NamedTuple):
    step: Int[Array, ""]
    cache: PyTree
    last: Int[Array, "B K"]
    live_tokens: Int[Array, "B K T"]
    live: Float[Array, "B K"]
    finished: Decoded
    done: Bool[Array, "B"]


def _top_k(x: Float[Array, "B N"], k: int) -> tuple[Float[Array, "B k"], Int[Array, "B k"]]:
    """`jax.lax.top_k`, behind a barrier: XLA's CPU backend knows a top-k by the slice [:k] of a sort and, where the
    program slices the result further, sorts all N (180 against 1.5 ms for 64 rows of 4 x 4000 extensions)."""
    return jax.lax.optimization_barrier(tuple(jax.lax.top_k(x, k)))


class BeamSearch:
    """The `beam_size` best extensions of the `beam_size` best prefixes, by log-probability, at every position.

    An extension by EOS that is among them finishes, with score log p / ((5 + |y|) / 6) ** alpha, |y| counting EOS; the
    next best ones keep `beam_size` prefixes alive. At a row's limit (`length_limits`) every prefix left takes EOS, at
    the price that the model gives it. PAD and BOS are never taken. With `beam_size` 1 and `alpha` 0 this is `Greedy`.

    A row stops when no live prefix can beat its finished hypotheses: log-probabilities only fall, and with alpha >= 0
    the penalty only grows, so a live prefix ends at most at log p / penalty(limit), an exact bound. `exact` names what
    it protects. ``"best"``: the first hypothesis is the one that a search to the limit would give; those after it are
    the best met so far, perhaps fewer than `beam_size`. ``"all"``: that holds for every hypothesis, in more steps.

    A row's result does not depend on the other rows nor on the padding. Cost: K model rows for each source row.
    """

    def __init__(
        self,
        *,
        beam_size: Positive = 4,
        alpha: NonNegativeFloat = 0.6,
        extra_length: NonNegative = 50,
        exact: Literal["best", "all"] = "best",
    ):
        self.beam_size = beam_size
        self.alpha = alpha
        self.extra_length = extra_length
        self.exact = exact

    def __call__(self, model: Any, source: dict[str, Int[Array, "B S"]], *, max_length: int) -> Decoded:
        """Decodes `source` (tokens, segments, positions) to at most `max_length` tokens, EOS included; pure."""
        start = lambda source: model.start(model.encode(source), max_length)
        axes = rows.batch_axes(start, source)
        limits = length_limits(source, self.extra_length, max_length)
        first = self._first(rows.repeat(start(source), axes, self.beam_size), source["tokens"].shape[0], max_length)

        def body(state: _State) -> _State:
            cache, log_probabilities, _ = model.step(state.cache, state.last.reshape(-1))
            log_probabilities = log_probabilities.astype(jnp.float32).reshape(*state.live.shape, -1)
            at_limit = state.step + 1 >= limits
            values, parents, tokens = self._candidates(state, log_probabilities, at_limit)
            finished = self._finish(state, values, parents, tokens)
            live, chosen = _top_k(jnp.where(tokens == EOS, -jnp.inf, values), self.beam_size)
            parents, tokens = (jnp.take_along_axis(x, chosen, axis=1) for x in (parents, tokens))
            prefixes = jnp.take_along_axis(state.live_tokens, parents[..., None], axis=1)
            bound = live[:, 0] / length_penalty(limits, self.alpha)
            to_beat = finished.scores[:, 0 if self.exact == "best" else -1]
            # What a step hands back untouched (the memory's part) is equal for all prefixes of a row: left in place.
            still = lambda axis, old, new: rows.NO_BATCH_AXIS if new is old else axis
            moving = jax.tree.map(still, axes, state.cache, cache)
            return _State(
                step=state.step + 1,
                cache=rows.reorder(cache, moving, parents),
                last=tokens,
                live_tokens=prefixes.at[:, :, state.step].set(tokens),
                live=live,
                finished=finished,
                done=state.done | (bound <= to_beat) | at_limit,
            )

        return jax.lax.while_loop(lambda state: ~jnp.all(state.done), body, first).finished

    def _first(self, cache: PyTree, batch: int, max_length: int) -> _State:
        """One live prefix a row, the empty one; the others have probability 0."""
        shape = (batch, self.beam_size)
        nothing, zeros = jnp.full(shape, -jnp.inf, jnp.float32), jnp.zeros(shape, jnp.int32)
        tokens = jnp.full((*shape, max_length), PAD, jnp.int32)
        return _State(
            step=jnp.int32(0),
            cache=cache,
            last=jnp.full(shape, BOS, jnp.int32),
            live_tokens=tokens,
            live=nothing.at[:, 0].set(0.0),
            finished=Decoded(tokens, scores=nothing, log_probabilities=nothing, lengths=zeros),
            done=jnp.zeros(batch, bool),
        )

    def _candidates(
        self, state: _State, log_probabilities: Float[Array, "B K V"], at_limit: Bool[Array, "B"]
    ) -> tuple[Float[Array, "B C"], Int[Array, "B C"], Int[Array, "B C"]]:
        """The C = 2K best extensions, best first: log-probability, parent, token. At most K of them end in EOS."""
        batch, beams, vocabulary_size = log_probabilities.shape
        allowed = allowed_tokens(vocabulary_size, at_limit)[:, None]
        extended = state.live[..., None] + jnp.where(allowed, log_probabilities, -jnp.inf)
        values, flat = _top_k(extended.reshape(batch, -1), 2 * beams)
        return values, flat // vocabulary_size, flat % vocabulary_size

    def _finish(
        self, state: _State, values: Float[Array, "B C"], parents: Int[Array, "B C"], tokens: Int[Array, "B C"]
    ) -> Decoded:
        """The best K of the finished hypotheses and of those that finish now; rows that are done stay as they are."""
        values, parents, tokens = (x[:, : self.beam_size] for x in (values, parents, tokens))
        ending = (tokens == EOS) & (values > -jnp.inf) & ~state.done[:, None]
        length = jnp.where(ending, state.step + 1, 0)
        values = jnp.where(ending, values, -jnp.inf)
        prefixes = jnp.take_along_axis(state.live_tokens, parents[..., None], axis=1).at[:, :, state.step].set(EOS)
        new = Decoded(
            tokens=jnp.where(ending[..., None], prefixes, PAD),
            scores=values / length_penalty(length, self.alpha),
            log_probabilities=values,
            lengths=length,
        )
        both = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), state.finished, new)
        _, best = _top_k(both.scores, self.beam_size)
        tokens = jnp.take_along_axis(both.tokens, best[..., None], axis=1)
        return Decoded(tokens, *(jnp.take_along_axis(x, best, axis=1) for x in both[1:]))

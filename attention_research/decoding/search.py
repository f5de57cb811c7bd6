"""The loop of all beam searches: positions, the model's cache, and the best K prefixes and hypotheses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attention_research.decoding import cache as rows
from attention_research.decoding.continuation import Continued
from attention_research.decoding.hypotheses import Decoded, allowed_tokens, length_limits, number_of_rows
from attention_research.models.protocol import Generates
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
    """`jax.lax.top_k`, behind an optimization barrier.

    XLA's CPU backend recognizes a top-k as the slice [:k] of a sort. If the program slices the result further, it sorts
    all N values (180 ms instead of 1.5 ms for 64 rows of 4 x 4000 extensions).
    """
    return jax.lax.optimization_barrier(tuple(jax.lax.top_k(x, k)))


def _without_prompt(lengths: Int[Array, "..."], prompts: Int[Array, "..."] | None) -> Int[Array, "..."]:
    """The number of tokens after the prompts, at least 1; without prompts the same lengths."""
    return lengths if prompts is None else jnp.maximum(lengths - prompts, 1)


class Search:
    """At each position, keeps the `beam_size` best extensions of the `beam_size` best prefixes, by log-probability.

    An extension that ends and is among the best becomes a finished hypothesis; the next best extensions keep
    `beam_size` prefixes alive. A subclass defines the log-probability of an extension (`prices`), which extensions end
    (`ends`) and are kept (`kept`), the ranking of hypotheses (`score`), and when a row stops (`is_over`).

    The result of a row does not depend on the other rows or on the padding. Each source row takes K model rows. The
    lengths that `score` and `is_over` get do not count a prompt (`continuation`).
    """

    beam_size: int
    extra_length: int

    def prices(self, log_probabilities: Float[Array, "B K V"], at_limit: Bool[Array, "B"]) -> Float[Array, "B K V"]:
        """The log-probability that each extension adds to its prefix; -inf for tokens that are not allowed.

        By default it is that of the model, and at the limit only EOS is allowed.
        """
        allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)[:, None]
        return jnp.where(allowed, log_probabilities, -jnp.inf)

    def ends(self, tokens: Int[Array, "B C"], at_limit: Bool[Array, "B"]) -> Bool[Array, "B C"]:
        """Whether each extension becomes a hypothesis: those by EOS."""
        del at_limit
        return tokens == EOS

    def kept(self, values: Float[Array, "B C"], finished: Int[Array, "B"]) -> Float[Array, "B C"]:
        """The log-probabilities of the extensions, best first, with -inf for those to drop; by default all are kept.

        `finished` is the number of hypotheses of each row.
        """
        del finished
        return values

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """The scores of hypotheses with these lengths (with EOS; 0, and log-probability -inf, for no hypothesis)."""
        raise NotImplementedError

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, "..."], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """Whether a row may stop, given its live prefixes of this length (of all rows, or of each) and its hypotheses
        so far, both best first."""
        raise NotImplementedError

    def __call__(self, model: Generates, source: Mapping[str, Array], *, max_length: int) -> Decoded:
        """Decodes `source` (tokens, segments, positions, or an image) to `max_length` tokens, including EOS. A pure
        function."""
        start = lambda source: model.start(model.encode(source), max_length)
        axes = rows.batch_axes(start, source)
        limits = length_limits(source, self.extra_length, max_length)
        prompts = model.prompt_lengths(source) if isinstance(model, Continued) else None
        end = _without_prompt(limits, prompts)
        first = self._first(rows.repeat(start(source), axes, self.beam_size), number_of_rows(source), max_length)

        def body(state: _State) -> _State:
            cache, log_probabilities, _ = model.step(state.cache, state.last.reshape(-1))
            log_probabilities = log_probabilities.astype(jnp.float32).reshape(*state.live.shape, -1)
            at_limit = state.step + 1 >= limits
            values, parents, tokens = self._candidates(state, self.prices(log_probabilities, at_limit))
            values = self.kept(values, jnp.sum(state.finished.lengths > 0, axis=1))
            ends = self.ends(tokens, at_limit)
            finished = self._finish(state, values, parents, tokens, ends, prompts)
            live, chosen = _top_k(jnp.where(ends, -jnp.inf, values), self.beam_size)
            parents, tokens = (jnp.take_along_axis(x, chosen, axis=1) for x in (parents, tokens))
            prefixes = jnp.take_along_axis(state.live_tokens, parents[..., None], axis=1)
            # Leaves that a step returns unchanged (the memory) are equal for all prefixes of a row and are not
            # reordered.
            still = lambda axis, old, new: rows.NO_BATCH_AXIS if new is old else axis
            moving = jax.tree.map(still, axes, state.cache, cache)
            return _State(
                step=state.step + 1,
                cache=rows.reorder(cache, moving, parents),
                last=tokens,
                live_tokens=prefixes.at[:, :, state.step].set(tokens),
                live=live,
                finished=finished,
                done=state.done
                | self.is_over(live, finished.scores, _without_prompt(state.step + 1, prompts), end)
                | at_limit,
            )

        return jax.lax.while_loop(lambda state: ~jnp.all(state.done), body, first).finished

    def _first(self, cache: PyTree, batch: int, max_length: int) -> _State:
        """The initial state: the empty prefix of each row is live; the others have probability 0."""
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
        self, state: _State, prices: Float[Array, "B K V"]
    ) -> tuple[Float[Array, "B C"], Int[Array, "B C"], Int[Array, "B C"]]:
        """The C = 2K best extensions, best first: log-probability, parent, token. At most K of them end in EOS."""
        batch, beams, vocabulary_size = prices.shape
        extended = state.live[..., None] + prices
        values, flat = _top_k(extended.reshape(batch, -1), 2 * beams)
        return values, flat // vocabulary_size, flat % vocabulary_size

    def _finish(
        self,
        state: _State,
        values: Float[Array, "B C"],
        parents: Int[Array, "B C"],
        tokens: Int[Array, "B C"],
        ends: Bool[Array, "B C"],
        prompts: Int[Array, "B"] | None,
    ) -> Decoded:
        """The best K of the finished hypotheses and of those that finish now; rows that are done do not change."""
        values, parents, tokens, ends = (x[:, : self.beam_size] for x in (values, parents, tokens, ends))
        ends = ends & (values > -jnp.inf) & ~state.done[:, None]
        length = jnp.where(ends, state.step + 1, 0)
        values = jnp.where(ends, values, -jnp.inf)
        prefixes = jnp.take_along_axis(state.live_tokens, parents[..., None], axis=1)
        new = Decoded(
            tokens=jnp.where(ends[..., None], prefixes.at[:, :, state.step].set(tokens), PAD),
            scores=self.score(values, _without_prompt(length, prompts if prompts is None else prompts[:, None])),
            log_probabilities=values,
            lengths=length,
        )
        both = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), state.finished, new)
        _, best = _top_k(both.scores, self.beam_size)
        tokens = jnp.take_along_axis(both.tokens, best[..., None], axis=1)
        return Decoded(tokens, *(jnp.take_along_axis(x, best, axis=1) for x in both[1:]))

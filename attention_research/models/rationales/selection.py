"""Shared parts of rationale generators: a bidirectional reader, and the selection of words by their scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Constructor

#: scores [B S] and the choice [B S], which is False in padding.
Selected = tuple[Float[Array, "B S"], Bool[Array, "B S"]]


class BothDirections(nnx.Module):
    """A bidirectional recurrent layer. Returns the concatenated states of both directions [B S 2D]."""

    def __init__(self, cell: Constructor, input_width: int, *, rngs: nnx.Rngs):
        self.forward, self.backward = (cell(input_width=input_width, rngs=rngs) for _ in range(2))
        self.width = 2 * self.forward.width

    def __call__(self, x: Float[Array, "B S E"], real: Bool[Array, "B S"]) -> Float[Array, "B S D"]:
        start = self.forward.initial(x.shape[0], x.dtype)
        ahead, _ = run(self.forward, x, start, real)
        back, _ = run(self.backward, x, start, real, reverse=True)
        return jnp.concatenate([ahead, back], axis=-1)


def draws(key: Key[Array, ""] | None, shape: tuple[int, ...]) -> Float[Array, "B S"]:
    """A uniform random number for each word, or 0.5 without a key. `taken` selects words whose probability is
    larger."""
    return jnp.full(shape, 0.5, jnp.float32) if key is None else jax.random.uniform(key, shape, jnp.float32)


def taken(scores: Float[Array, "*B"], draw: Float[Array, "*B"]) -> Bool[Array, "*B"]:
    """The selected words. With uniform draws, each word is selected with probability sigmoid(score)."""
    return draw < jax.nn.sigmoid(jax.lax.stop_gradient(scores)).astype(draw.dtype)


def log_probability(scores: Float[Array, "B S"], selected: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """log p(z_t): log sigmoid(score) of a selected word, log sigmoid(-score) of any other word."""
    return jax.nn.log_sigmoid(jnp.where(selected, scores, -scores))

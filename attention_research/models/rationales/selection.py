"""What generators of rationales share: reading a text in both directions, and choosing words by their scores."""

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
    """The states of two cells, one read from the left and one from the right, next to each other: [B S 2D]."""

    def __init__(self, cell: Constructor, input_width: int, *, rngs: nnx.Rngs):
        self.forward, self.backward = (cell(input_width=input_width, rngs=rngs) for _ in range(2))
        self.width = 2 * self.forward.width

    def __call__(self, x: Float[Array, "B S E"], real: Bool[Array, "B S"]) -> Float[Array, "B S D"]:
        start = self.forward.initial(x.shape[0], x.dtype)
        ahead, _ = run(self.forward, x, start, real)
        back, _ = run(self.backward, x, start, real, reverse=True)
        return jnp.concatenate([ahead, back], axis=-1)


def draws(key: Key[Array, ""] | None, shape: tuple[int, ...]) -> Float[Array, "B S"]:
    """A uniform number for each word: it is taken where its probability is above. 0.5 everywhere without a key."""
    return jnp.full(shape, 0.5, jnp.float32) if key is None else jax.random.uniform(key, shape, jnp.float32)


def taken(scores: Float[Array, "*B"], draw: Float[Array, "*B"]) -> Bool[Array, "*B"]:
    """Which words are taken, with probability sigmoid(score) where the draws are uniform."""
    return draw < jax.nn.sigmoid(jax.lax.stop_gradient(scores)).astype(draw.dtype)


def log_probability(scores: Float[Array, "B S"], selected: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """log p(z_t): log sigmoid(score) of a word that was taken, log sigmoid(-score) of one that was not."""
    return jax.nn.log_sigmoid(jnp.where(selected, scores, -scores))

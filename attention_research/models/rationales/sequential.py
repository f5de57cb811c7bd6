"""A generator whose choices depend on the earlier ones, Lei et al. 2016, section 4.2 ("recurrent" in Table 2).

    p(z_t = 1 | x, z_1 .. z_{t-1}) = sigmoid([h->_t; h<-_t; s_{t-1}] w + b)
    s_t = cell([h->_t; h<-_t; z_t], s_{t-1})

This follows the released code (rcnn, `ZLayer`), where s has width 30. Without a key, each choice is the more likely one
given the choices before it. This greedy choice need not give the most likely sequence.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.linear import Linear
from attention_research.models.rationales.selection import BothDirections, Selected, draws, taken
from attention_research.signatures import Child, Given


class SequentialGenerator(nnx.Module):
    """Selects words from left to right. `cell` reads the text, and `choices` is a cell that reads the choices."""

    def __init__(
        self,
        *,
        cell: Child["recurrent_cell"],
        choices: Child["recurrent_cell"] = {"kind": "rcnn", "width": 30},  # noqa: B006  read as a schema
        input_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.reader = BothDirections(cell, input_width, rngs=rngs)
        self.choices = choices(input_width=self.reader.width + 1, rngs=rngs)
        self.score = Linear(self.reader.width + self.choices.width, 1, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B S E"],
        real: Bool[Array, "B S"],
        *,
        key: Key[Array, ""] | None = None,
        selected: Bool[Array, "B S"] | None = None,
    ) -> Selected:
        """(scores, choice). The choice is sampled with a key, and the more likely one without a key. If `selected` is
        given, it is the choice."""
        states = self.reader(x, real)

        def step(state: dict[str, Array], at: tuple[Any, ...]) -> tuple[dict[str, Array], tuple[Array, Array]]:
            h, here, draw, given = at
            score = self.score(jnp.concatenate([h, state["hidden"]], axis=-1))[:, 0]
            choice = (taken(score, draw) if given is None else given) & here
            after = self.choices(jnp.concatenate([h, choice[:, None].astype(h.dtype)], axis=-1), state)
            after = {name: jnp.where(here[:, None], after[name], before) for name, before in state.items()}
            return after, (score, choice)

        start = self.choices.initial(x.shape[0], x.dtype)
        given = None if selected is None else selected.T
        along = (states.swapaxes(0, 1), real.T, draws(key, real.shape).T, given)
        _, (scores, choice) = jax.lax.scan(step, start, along)
        return scores.T, choice.T

"""The Universal Transformer with adaptive computation time, Dehghani et al. 2018 (arXiv 1807.03819), section 2.2.

Each position decides for itself at how many steps it is written (Graves 2016, arXiv 1603.08983). With the state s of a
position, its step embedding added, p = sigmoid(w s + b) is the chance that it halts now, h the sum of those so far:

    h + p <= threshold:   h <- h + p,  weight p                 it goes on
    h + p > threshold:    weight r = 1 - h, the remainder       it halts; from then on its weight is 0
    s <- Layer(s),        output <- weight s + (1 - weight) output

as the loop in the paper's appendix C has it. So it is the output that stands still: the state goes on under the layer,
where section 2.2 says that it is copied. Each row's mean of (steps + remainder), its ponder cost, goes to the task's
loss times `ponder_weight`. All `num_layers` steps are computed for all; Narang et al. 2021 ran without any halting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.layers.block import Block
from attention_research.layers.linear import Linear
from attention_research.layers.universal_stack import SignalledBlock, UniversalStack
from attention_research.signatures import NonNegativeFloat, Positive, Rate

#: What a position carries beside its state and its output: the sum of p, the remainder, the steps so far.
COUNTS = 3


def begin(x: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
    """The carry, C = 2 D + 3: state, output and counts side by side."""
    return jnp.concatenate([x, jnp.zeros((*x.shape[:2], x.shape[2] + COUNTS), x.dtype)], axis=-1)


def parts(carry: Float[Array, "*L B T C"]) -> tuple[Array, Array, Array]:
    """(state, output, counts [... 3]) of a carry."""
    width = (carry.shape[-1] - COUNTS) // 2
    return carry[..., :width], carry[..., width:-COUNTS], carry[..., -COUNTS:]


class AdaptiveBlock(nnx.Module):
    """A step of the carry: `step` embedding, halting, the layer."""

    def __init__(self, block: SignalledBlock, halting: Linear, threshold: float):
        self.block, self.halting, self.threshold = block, halting, threshold

    def __call__(
        self, carry: Float[Array, "B T C"], inputs: Mapping[str, Mapping[str, Any]], *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T C"], dict[str, Any]]:  # fmt: skip
        """(carry, aux of the block)."""
        y, aux = self.block(parts(carry)[0], inputs, key=key)
        return self.weighed(carry, y), aux

    def start(self, batch: int, length: int, dtype: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """As the block's."""
        return self.block.start(batch, length, dtype, inputs)

    def step(
        self, carry: Float[Array, "B 1 C"], caches: dict[str, Any], memory: dict[str, Any], index: Int[Array, ""],
        shared: Mapping[str, Any],
    ) -> tuple[Float[Array, "B 1 C"], dict[str, Any], dict[str, Any]]:  # fmt: skip
        """One position: (carry, caches, aux)."""
        y, grown, aux = self.block.step(parts(carry)[0], caches, memory, index, shared)
        return self.weighed(carry, y), grown, aux

    def weighed(self, carry: Float[Array, "B T C"], y: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
        """The carry after the layer has given y."""
        state, output, counts = parts(carry)
        so_far, remainder, steps = jnp.split(counts, COUNTS, axis=-1)
        p = jax.nn.sigmoid(self.halting(state + self.block.signal[...].astype(state.dtype)))
        running, beyond = so_far < 1, so_far + p > self.threshold
        halts, goes_on = (running & beyond).astype(p.dtype), (running & ~beyond).astype(p.dtype)
        weight = p * goes_on + (1 - so_far) * halts
        counts = [so_far + weight, remainder + (1 - so_far) * halts, steps + goes_on + halts]
        # A sum that rounding left below 1 must not run on.
        counts[0] = jnp.where(halts > 0, jnp.ones_like(so_far), counts[0])
        return jnp.concatenate([y, weight * y + (1 - weight) * output, *counts], axis=-1)


class AdaptiveUniversalStack(UniversalStack):
    """`num_layers` steps at most. Owns w and b, D + 1 parameters, beside the layer and the step embeddings.

    A row's mean is over all of its positions, padding too. "hidden" [L B T D] is the output so far.
    """

    def __init__(
        self,
        *,
        width: Positive,
        threshold: Rate = 0.99,
        ponder_weight: NonNegativeFloat = 0.01,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(width=width, before=0, after=0, rngs=rngs, **inherited)
        self.threshold, self.ponder_weight = threshold, ponder_weight
        self.halting = Linear(width, 1, rngs=rngs)

    def _each(self, blocks: Block) -> tuple[Any, Callable[[Any], AdaptiveBlock]]:
        signals, block_of = super()._each(blocks)
        return signals, lambda signal: AdaptiveBlock(block_of(signal), self.halting, self.threshold)

    def segment(
        self, number: int, x: Float[Array, "B T D"], inputs: Mapping[str, Mapping[str, Any]], *,
        each: Mapping[str, Mapping[str, Any]] | None = None, key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:  # fmt: skip
        """(output, aux with the ponder cost of each row [B])."""
        carry, aux = super().segment(number, begin(x), inputs, each=each, key=key)
        _, output, counts = parts(carry)
        ponder = jnp.mean(jnp.sum(counts[..., 1:].astype(jnp.float32), axis=-1), axis=-1)
        return output, {**aux, "hidden": parts(aux["hidden"])[1], "loss": {"ponder": self.ponder_weight * ponder}}

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""], shared: Mapping[str, Any]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """One position: (output, caches, aux)."""
        carry, caches, aux = super().step(begin(x), caches, index, shared)
        return parts(carry)[1], caches, aux

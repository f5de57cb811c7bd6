"""The Universal Transformer with adaptive computation time, Dehghani et al. 2018 (arXiv 1807.03819), section 2.2.

Each position learns after how many steps it halts (Graves 2016, arXiv 1603.08983). Let s be the state of a position
with the step embedding added, p = sigmoid(w s + b) its halting probability at this step, and h the sum of its halting
probabilities at earlier steps:

    h + p <= threshold:   h <- h + p,  weight p                 the position continues
    h + p > threshold:    weight r = 1 - h, the remainder       the position halts; its later weights are 0
    s <- Layer(s),        output <- weight s + (1 - weight) output

This follows the loop in the paper's appendix C: after a position halts, its output is constant, but the layer still
updates its state. Section 2.2 says instead that the state is copied. The ponder cost of a row is the mean over its
positions of (steps + remainder); it is multiplied by `ponder_weight` and added to the loss. All `num_layers` steps are
computed for every position. Narang et al. 2021 ran the model without halting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels.precision import accumulator
from attention_research.layers.block import Block
from attention_research.layers.linear import Linear
from attention_research.layers.universal_stack import SignalledBlock, UniversalStack
from attention_research.signatures import NonNegativeFloat, Positive, Rate

#: The number of scalars that a position carries besides its state and output: sum of p, remainder, steps so far.
COUNTS = 3


def begin(x: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
    """The initial carry: state, output and counts, concatenated (C = 2 D + 3), in float32.

    In bfloat16, a sum of many small probabilities would be rounded at every step, and positions would halt later or
    earlier."""
    x = x.astype(accumulator(x.dtype))
    return jnp.concatenate([x, jnp.zeros((*x.shape[:2], x.shape[2] + COUNTS), x.dtype)], axis=-1)


def parts(carry: Float[Array, "*L B T C"]) -> tuple[Array, Array, Array]:
    """Splits a carry into (state, output, counts [... 3])."""
    width = (carry.shape[-1] - COUNTS) // 2
    return carry[..., :width], carry[..., width:-COUNTS], carry[..., -COUNTS:]


class AdaptiveBlock(nnx.Module):
    """Applies one recurrence step to the carry: adds the step embedding, decides on halting, and runs the layer.

    The layer computes in the dtype that the inputs hold under "carry".
    """

    def __init__(self, block: SignalledBlock, halting: Linear, threshold: float):
        self.block, self.halting, self.threshold = block, halting, threshold

    def __call__(
        self, carry: Float[Array, "B T C"], inputs: Mapping[str, Mapping[str, Any]], *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T C"], dict[str, Any]]:  # fmt: skip
        """Returns (carry, the block's aux)."""
        y, aux = self.block(parts(carry)[0].astype(inputs["carry"]["dtype"]), inputs, key=key)
        return self.weighed(carry, y), aux

    def start(self, batch: int, length: int, dtype: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The block's initial caches."""
        return self.block.start(batch, length, dtype, inputs)

    def step(
        self, carry: Float[Array, "B 1 C"], caches: dict[str, Any], memory: dict[str, Any], index: Int[Array, ""],
        shared: Mapping[str, Any],
    ) -> tuple[Float[Array, "B 1 C"], dict[str, Any], dict[str, Any]]:  # fmt: skip
        """Decodes one position. Returns (carry, caches, aux)."""
        y, grown, aux = self.block.step(parts(carry)[0].astype(shared["carry"]["dtype"]), caches, memory, index, shared)
        return self.weighed(carry, y), grown, aux

    def weighed(self, carry: Float[Array, "B T C"], y: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
        """Updates the carry, given the layer's output y."""
        state, output, counts = parts(carry)
        state, so_far, remainder, steps = state.astype(y.dtype), *jnp.split(counts, COUNTS, axis=-1)
        logits = self.halting(state + self.block.signal[...].astype(state.dtype))
        p = jax.nn.sigmoid(logits.astype(counts.dtype))
        running, beyond = so_far < 1, so_far + p > self.threshold
        halts, goes_on = (running & beyond).astype(p.dtype), (running & ~beyond).astype(p.dtype)
        weight = p * goes_on + (1 - so_far) * halts
        counts = [so_far + weight, remainder + (1 - so_far) * halts, steps + goes_on + halts]
        # A halted position whose sum is below 1 because of rounding must not continue.
        counts[0] = jnp.where(halts > 0, jnp.ones_like(so_far), counts[0])
        y = y.astype(carry.dtype)
        return jnp.concatenate([y, weight * y + (1 - weight) * output, *counts], axis=-1)


class AdaptiveUniversalStack(UniversalStack):
    """A Universal Transformer of at most `num_layers` steps with learned halting.

    Owns w and b (D + 1 parameters) in addition to the layer and the step embeddings. The ponder cost of a row is the
    mean over all of its positions, padding included. "hidden" [L B T D] is the output after each step.

    A position halts when its halting probabilities add up to more than `threshold`.
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
        handed: dict[str, Any] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:  # fmt: skip
        """Returns (output, aux with the ponder cost of each row [B])."""
        inputs = {**inputs, "carry": {"dtype": x.dtype}}
        carry, aux = super().segment(number, begin(x), inputs, each=each, key=key, handed=handed)
        _, output, counts = parts(carry)
        output, hidden = (one.astype(x.dtype) for one in (output, parts(aux["hidden"])[1]))
        ponder = jnp.mean(jnp.sum(counts[..., 1:].astype(jnp.float32), axis=-1), axis=-1)
        return output, {**aux, "hidden": hidden, "loss": {"ponder": self.ponder_weight * ponder}}

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""], shared: Mapping[str, Any]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Decodes one position. Returns (output, caches, aux)."""
        carry, caches, aux = super().step(begin(x), caches, index, {**shared, "carry": {"dtype": x.dtype}})
        return parts(carry)[1].astype(x.dtype), caches, aux

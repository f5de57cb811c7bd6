"""The Universal Transformer, Dehghani et al. 2018 (arXiv 1807.03819), section 2.1, as Narang et al. 2021 ran it.

One layer is applied several times with the same weights. Step i of the recurrence adds an embedding to its input:

    x <- Layer(x + sqrt(D) E[i]),    E [steps D], initialized from N(0, 1/D)

The same layer is also applied `before` times before and `after` times after the recurrence, without an embedding. The
released code of Narang et al. (2 + 24 + 2 applications) has no halting ("basic" recurrence) and adds no position signal
at each step, although both are in the paper and in its configuration; position information comes from the attention
layers. Its residual connections use the gate of `layers.residuals.gate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.layers.block import Block
from attention_research.layers.shared_stack import SharedStack
from attention_research.signatures import NonNegative, Positive


class SignalledBlock(nnx.Module):
    """A block that adds `signal` [D] to its input."""

    def __init__(self, block: Block, signal: Float[Array, "D"]):
        self.block, self.signal = block, nnx.Param(signal)

    def __call__(
        self, x: Float[Array, "B T D"], inputs: Mapping[str, Mapping[str, Any]], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Applies the block to x + signal."""
        return self.block(x + self.signal[...].astype(x.dtype), inputs, key=key)

    def start(self, batch: int, length: int, dtype: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The block's initial caches."""
        return self.block.start(batch, length, dtype, inputs)

    def step(
        self, x: Float[Array, "B 1 D"], caches: dict[str, Any], memory: dict[str, Any], index: Int[Array, ""],
        shared: Mapping[str, Any],
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:  # fmt: skip
        """Decodes one position with the block, from x + signal."""
        return self.block.step(x + self.signal[...].astype(x.dtype), caches, memory, index, shared)


class UniversalStack(SharedStack):
    """Applies one layer `num_layers` times. All but `before` + `after` applications have their own step embedding.

    Each application has its own cache, dropout and "hidden". Owns the step embeddings E (steps * D parameters) besides
    the layer. Raises ConfigError if no step is left between `before` and `after`, or if the layout has several kinds of
    layers.
    """

    def __init__(
        self, *, width: Positive, before: NonNegative = 2, after: NonNegative = 2, rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(rngs=rngs, **inherited)
        if len(self.repeats) != 1:
            raise ConfigError(f"stack.kind: universal expects layers of one kind; the layout gives {len(self.repeats)}")
        steps = self.repeats[0] - before - after
        if steps < 1:
            raise ConfigError(f"num_layers: {self.repeats[0]} leaves no step between {before} before and {after} after")
        self.before, self.after = before, after
        self.step_table = nnx.Param(jax.random.normal(rngs.params(), (steps, width), jnp.float32) * width**-0.5)

    def _each(self, blocks: Block) -> tuple[Any, Callable[[Any], Any]]:
        _, block_of = super()._each(blocks)
        table = self.step_table[...]
        signals = jnp.pad(table * math.sqrt(table.shape[-1]), ((self.before, self.after), (0, 0)))  # 0: no signal
        return signals, lambda signal: SignalledBlock(block_of(None), signal)

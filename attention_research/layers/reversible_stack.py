"""The reversible stack of the Reformer, Kitaev, Kaiser & Levskaya 2020 (arXiv 2001.04451), section 3: y1 = x1 +
Attention(x2), y2 = x2 + FeedForward(y1).

The gradient recomputes the inputs of a layer from its outputs (Gomez et al. 2017, arXiv 1707.04585), so that memory
does not grow with depth. Both streams begin as the input of the stack. Its output is their mean; the released code
concatenates them, which would need vocabularies and memories of twice the width. A block with three branches (a decoder
with cross-attention) alternates the streams: each branch reads the stream that the branch before has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.kernels.efficient.reversible_branches import reversible_branches
from attention_research.layers.block import Block
from attention_research.layers.residuals.plain import PlainResidual
from attention_research.layers.residuals.rezero import ReZero
from attention_research.layers.residuals.scaled import ScaledResidual
from attention_research.layers.stack import Inputs, Stack, whole, with_own
from attention_research.parallel.scope import activations
from attention_research.signatures import Given

#: Residuals that add a function of the branch's value to the stream.
ADDS = (PlainResidual, ReZero, ScaledResidual)


class ReversibleBlock(Block):
    """A block with two streams, which are the halves of x [B T 2D].

    Raises ConfigError for a branch that does not end with a residual that adds, such as post-norm.
    """

    def __init__(self, **inherited: Any):
        super().__init__(**inherited)
        for branch in self.branches:
            kind, name = branch[-1]
            if kind != "residual" or not isinstance(getattr(self, name), ADDS):
                raise ConfigError(f"steps: a reversible stack expects branches that end with a residual that adds, got "
                                  f"{tuple(kind for kind, _ in branch)}")  # fmt: skip

    def run(self, x: Array, key: Key[Array, ""] | None, apply: Callable[[str, str, int, Array], Array]) -> Array:
        """Each branch reads the second stream, adds to the first, and exchanges them."""
        first, second = jnp.split(x, 2, axis=-1)
        for number in range(len(self.branches)):
            first, second = second, self.branch(number, first, second, key, apply)
        return joined(first, second)

    def alone(
        self, number: int, x: Float[Array, "B T D"], inputs: Inputs, key: Key[Array, ""] | None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(what a branch adds to the stream, aux)."""
        collected: dict[str, Any] = {}
        return self.branch(number, jnp.zeros_like(x), x, key, self.applied(inputs, key, collected)), collected


class ReversibleStack(Stack):
    """A `layers.stack.Stack` whose layers keep nothing for the gradient. It needs `final_norm` with a norm in front of
    each branch, as every pre-norm stack. `unroll` applies to decoding; `remat` changes nothing."""

    def __init__(
        self,
        *,
        segments: Given[Sequence[tuple[partial[Block], int]]],
        unroll: Given[bool] = False,
        remat: Given[bool] = False,
        rngs: nnx.Rngs,
    ):
        two_streams = [(partial(ReversibleBlock, **block.keywords), repeat) for block, repeat in segments]
        super().__init__(segments=two_streams, unroll=unroll, remat=remat, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T D"], inputs: Inputs, *, each: Inputs | None = None, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (the mean of the streams, aux)."""
        x, aux = super().__call__(joined(x, x), inputs, each=each, key=key)
        return mean(*jnp.split(x, 2, axis=-1)), aux

    def segment(
        self, number: int, x: Float[Array, "B T C"], inputs: Inputs, *, each: Inputs | None = None,
        key: Key[Array, ""] | None = None, handed: dict[str, Any] | None = None,
    ) -> tuple[Float[Array, "B T C"], dict[str, Any]]:  # fmt: skip
        """Applies one segment to both streams. "hidden" has their mean after each layer."""
        repeat, (along, block_of) = self.repeats[number], self._each(self.segments[number])
        keys = None if key is None else jax.random.split(jax.random.fold_in(key, number), repeat)
        depths, layer = self._layer(number, handed or {})

        def run(branch: int, of_layer: Any, of_all: Any, x: Array) -> tuple[Array, dict[str, Any]]:
            (own, own_inputs, block_key, depth), (inputs, layer) = of_layer, of_all
            given = {**with_own(inputs, own_inputs), "layer": {**layer, "depth": depth}}
            return whole(block_of(own)).alone(branch, activations(x), given, block_key)

        branches = [partial(run, branch) for branch in range(len(self.segments[number].branches))]
        layers = along, self._of_segment(number, each), keys, depths
        first, second = jnp.split(x, 2, axis=-1)
        pair, (aux, after) = reversible_branches(first, second, layers, (inputs, layer), branches=branches)
        return joined(*pair), {"hidden": mean(*after), **{name: one for some in aux for name, one in some.items()}}

    def prefill(
        self, x: Float[Array, "B P D"], length: int, inputs: Inputs
    ) -> tuple[Float[Array, "B P D"], list[dict[str, Any]]]:
        """Processes the first P of `length` positions."""
        x, caches = super().prefill(joined(x, x), length, inputs)
        return mean(*jnp.split(x, 2, axis=-1)), caches

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""], shared: Mapping[str, Any]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Decodes one position."""
        x, caches, aux = super().step(joined(x, x), caches, index, shared)
        return mean(*jnp.split(x, 2, axis=-1)), caches, aux


def joined(first: Array, second: Array) -> Float[Array, "*L B T C"]:
    """Both streams in one array."""
    return jnp.concatenate([first, second], axis=-1)


def mean(first: Array, second: Array) -> Float[Array, "*L B T D"]:
    """The mean of the streams."""
    return (first + second) * jnp.asarray(0.5, first.dtype)

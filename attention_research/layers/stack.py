"""A stack of blocks: a list of segments (block, repeat). Segments are scanned or unrolled, optionally with remat.

The layers of a segment are stored as one block whose arrays have a leading layer axis [L ...]. Compile time therefore
does not grow with depth, and scanned and unrolled stacks have the same parameters under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.layers.block import Block
from attention_research.layers.structure import split
from attention_research.parallel.scope import activations, axis_size, gathered, regathering
from attention_research.signatures import Given

#: The inputs of blocks besides x: kind of child -> keyword -> value.
Inputs = Mapping[str, Mapping[str, Any]]


def unstacked(tree: Any, length: int) -> list[Any]:
    """Splits every array along its first axis into `length` slices. The gradient is a single concatenation."""
    leaves, structure = jax.tree.flatten(tree)
    pieces = [
        list(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else [piece[0] for piece in jax.lax.split(leaf, [1] * length)]
        for leaf in leaves
    ]  # fmt: skip
    return [jax.tree.unflatten(structure, [piece[l] for piece in pieces]) for l in range(length)]


def _asked(block: Block, what: str) -> list[str]:
    """The names of the children whose class sets the attribute `what`."""
    return [name for name, child in vars(block).items() if getattr(child, what, False) is True]


def _handed_over(aux: dict[str, Any], handed: dict[str, Any]) -> dict[str, Any]:
    """Takes "handed" out of the aux of a segment. Returns what is handed over after it, by the name of the child."""
    given = {name: one.pop("handed") for name, one in aux.items() if isinstance(one, dict) and "handed" in one}
    return {**handed, **{name: jax.tree.map(lambda x: x[-1], one) for name, one in given.items()}}


def _in_layer(block: Block, depth: Int[Array, ""], num_layers: int) -> Block:
    """Gives the parameters of a new block the starts of its layer. A child whose starts depend on the number of its
    layer, from 0, has a method `start_in_layer(depth, num_layers)`."""
    for child in list(vars(block).values()):
        start = getattr(child, "start_in_layer", None)
        if start is not None:
            start(depth, num_layers)
    return block


def with_own(inputs: Inputs, own: Inputs) -> Inputs:
    """Merges the inputs that all layers share with the inputs of one layer."""
    return {**inputs, **{kind: {**inputs.get(kind, {}), **given} for kind, given in own.items()}}


def _at(depth: Array | None, shared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The modules that the stack owns, and the number of one layer."""
    return {**shared, "layer": {**shared["layer"], "depth": depth}}


def whole(block: nnx.Module) -> Any:
    """The block of the current layer, with its parameters gathered from all shards (`parallel.scope`)."""
    if axis_size("fsdp") == 1:
        return block
    structure, parameters, statistics = split(block)
    return structure.merge(gathered(parameters), statistics)


class Stack(nnx.Module):
    """Applies segments of blocks to x [B T D]. The aux of a segment holds "hidden" [L B T D] and its children's aux."""

    def __init__(
        self,
        *,
        segments: Given[Sequence[tuple[Callable[..., Block], int]]],
        unroll: Given[bool] = False,
        remat: Given[bool] = False,
        rngs: nnx.Rngs,
    ):
        self.repeats = tuple(repeat for _, repeat in segments)
        self.unroll, self.remat = unroll, remat
        self.depths = tuple(sum(self.repeats[:number]) for number in range(len(self.repeats)))
        layers = sum(self.repeats)
        self.segments = nnx.List(
            [
                jax.vmap(lambda key, depth, block=block: _in_layer(block(rngs=nnx.Rngs(key)), depth, layers))(
                    jax.random.split(rngs.params(), self._owned(repeat)), first + np.arange(self._owned(repeat))
                )
                for (block, repeat), first in zip(segments, self.depths, strict=True)
            ]
        )

    def _layer(self, number: int, handed: dict[str, Any]) -> tuple[Int[Array, "L"] | None, Inputs]:
        """(the numbers of the layers of a segment, or None if no child asks for them; what they are handed)."""
        block = self.segments[number]
        wanted = _asked(block, "takes_handed")
        if missing := [name for name in wanted if name not in handed]:
            kind = type(getattr(block, missing[0])).__name__
            raise ConfigError(f"{missing[0]}: {kind} of layer {self.depths[number] + 1} needs a lower layer that hands "
                              "over its keys or values")  # fmt: skip
        first, repeat = self.depths[number], self.repeats[number]
        depth = first + jax.numpy.arange(repeat, dtype="int32") if _asked(block, "takes_depth") else None
        return depth, {"handed": {name: handed[name] for name in wanted}}

    def _owned(self, repeat: int) -> int:
        """The number of layers whose weights a segment of `repeat` layers stores."""
        return repeat

    def _each(self, blocks: Block) -> tuple[Any, Callable[[Any], Any]]:
        """Returns (the tree to scan over, a function from one slice of it to the block of that layer)."""
        return blocks, lambda block: block

    def __call__(
        self, x: Float[Array, "B T D"], inputs: Inputs, *, each: Inputs | None = None, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (y, aux). Blocks share `inputs`; each has its own key and its slice of `each` (arrays [L ...])."""
        collected: dict[str, Any] = {}
        handed: dict[str, Any] = {}
        for number in range(len(self.repeats)):
            x, aux = self.segment(number, x, inputs, each=each, key=key, handed=handed)
            handed, collected[f"segment_{number}"] = _handed_over(aux, handed), aux
        return x, collected

    def segment(
        self, number: int, x: Float[Array, "B T D"], inputs: Inputs, *, each: Inputs | None = None,
        key: Key[Array, ""] | None = None, handed: dict[str, Any] | None = None,
    ) -> tuple[Float[Array, "B _ D"], dict[str, Any]]:  # fmt: skip
        """Applies one segment. `__call__` applies all segments in order."""
        repeat, (along, block_of) = self.repeats[number], self._each(self.segments[number])
        keys = None if key is None else jax.random.split(jax.random.fold_in(key, number), repeat)
        depths, layer = self._layer(number, handed or {})

        def body(x: Array, of_layer: tuple[Any, Any, Any, Any]) -> tuple[Array, dict[str, Any]]:
            own, own_inputs, block_key, depth = of_layer
            given = {**with_own(inputs, own_inputs), "layer": {**layer, "depth": depth}}
            x, aux = whole(block_of(own))(activations(x), given, key=block_key)
            return x, {"hidden": x, **aux}

        body = jax.checkpoint(body) if self.remat else regathering(body)
        return self._over_layers(body, x, (along, self._of_segment(number, each), keys, depths), repeat)

    def _of_segment(self, number: int, each: Inputs | None) -> Inputs:
        """The slices of the per-layer inputs that belong to one segment."""
        first = sum(self.repeats[:number])
        return jax.tree.map(lambda x: x[first : first + self.repeats[number]], {} if each is None else each)

    def _over_layers(self, body: Callable, carry: Any, layers: Any, repeat: int) -> tuple[Any, Any]:
        if not self.unroll:
            return jax.lax.scan(body, carry, layers, length=repeat)
        outputs = []
        for layer in unstacked(layers, repeat):
            carry, output = body(carry, layer)
            outputs.append(output)
        return carry, jax.tree.map(lambda *arrays: jax.numpy.stack(arrays), *outputs)

    def start(
        self, batch: int, length: int, dtype: Any, inputs: Inputs, *, each: Inputs | None = None
    ) -> list[dict[str, Any]]:
        """The caches of all layers, one entry per segment: stacked [L ...], or lists of length L if unrolled."""
        caches = []
        for number, repeat in enumerate(self.repeats):
            along, block_of = self._each(self.segments[number])
            of_layer = lambda own, given, block_of=block_of: block_of(own).start(
                batch, length, dtype, with_own(inputs, given)
            )
            caches.append(jax.vmap(of_layer, axis_size=repeat)(along, self._of_segment(number, each)))
        return self._kept(caches)

    def prefill(
        self, x: Float[Array, "B P D"], length: int, inputs: Inputs
    ) -> tuple[Float[Array, "B P D"], list[dict[str, Any]]]:
        """Processes the first P of `length` positions. Returns (y, the caches of `start`, filled)."""
        caches: list[dict[str, Any]] = []
        handed: dict[str, Any] = {}
        for number, repeat in enumerate(self.repeats):
            along, block_of = self._each(self.segments[number])
            depths, layer = self._layer(number, handed)

            def body(x: Array, one: tuple[Any, Any], block_of: Any = block_of, layer: Any = layer) -> tuple[Array, Any]:
                own, depth = one
                x, cache, aux = block_of(own).prefill(x, length, {**inputs, "layer": {**layer, "depth": depth}})
                return x, (cache, {name: {"handed": a["handed"]} for name, a in aux.items() if "handed" in a})

            x, (cache, aux) = self._over_layers(body, x, (along, depths), repeat)
            handed = _handed_over(aux, handed)
            caches.append(cache)
        return x, self._kept(caches)

    def _kept(self, caches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Brings stacked caches [L ...] into the form that `step` takes: split into lists if the stack is unrolled."""
        if not self.unroll:
            return caches
        apart = lambda cache, repeat: {name: unstacked(tree, repeat) for name, tree in cache.items()}
        return [apart(cache, repeat) for cache, repeat in zip(caches, self.repeats, strict=True)]

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""], shared: Mapping[str, Any]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Decodes one position through all layers. The cached memory is returned unchanged."""
        after: list[dict[str, Any]] = []
        collected: dict[str, Any] = {}
        handed: dict[str, Any] = {}
        over_layers = self._unrolled_step if self.unroll else self._scanned_step
        for number, (blocks, cache) in enumerate(zip(self.segments, caches, strict=True)):
            depths, layer = self._layer(number, handed)
            given = {**shared, "layer": layer}
            x, caches, aux = over_layers(blocks, x, **cache, index=index, shared=given, depths=depths)
            handed, collected[f"segment_{number}"] = _handed_over(aux, handed), aux
            after.append({"caches": caches, "memory": cache["memory"]})
        return x, after, collected

    def _unrolled_step(
        self, blocks: Block, x: Array, caches: list[Any], memory: list[Any], index: Array, shared: Mapping[str, Any],
        depths: Array | None,
    ) -> tuple[Array, list[Any], dict[str, Any]]:  # fmt: skip
        """Each layer updates its own cache arrays in place. Slices of stacked arrays would be copied instead."""
        after, outputs = [], []
        along, block_of = self._each(blocks)
        layers = unstacked((along, depths), len(caches))
        for (layer, depth), before, kept in zip(layers, caches, memory, strict=True):
            x, own, aux = block_of(layer).step(x, before, kept, index, _at(depth, shared))
            after.append(own)
            outputs.append(aux)
        return x, after, jax.tree.map(lambda *arrays: jax.numpy.stack(arrays), *outputs)

    def _scanned_step(
        self, blocks: Block, x: Array, caches: Any, memory: Any, index: Array, shared: Mapping[str, Any],
        depths: Array | None,
    ) -> tuple[Array, Any, dict[str, Any]]:  # fmt: skip
        """Passes the caches in the carry of the scan. As scanned outputs they would be copied."""

        along, block_of = self._each(blocks)

        def body(carry: Any, layer: Any) -> tuple[Any, Any]:
            x, caches = carry
            layer, memory, l, depth = layer
            own = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, l, 0, keepdims=False), caches)
            x, own, aux = block_of(layer).step(x, own, memory, index, _at(depth, shared))
            caches = jax.tree.map(lambda a, new: jax.lax.dynamic_update_index_in_dim(a, new, l, 0), caches, own)
            return (x, caches), aux

        layers = jax.numpy.arange(len(jax.tree.leaves((caches, memory, along))[0]))
        (x, caches), aux = jax.lax.scan(body, (x, caches), (along, memory, layers, depths))
        return x, caches, aux

"""A block consists of residual branches. Each branch is a list of steps that name the block's child modules.

The design follows Mesh TensorFlow's layers. Post-norm, LN(x + Dropout(Sublayer(x))) of Vaswani et al. 2017, is
("self_attention", "dropout", "residual", "norm"). Pre-norm (Xiong et al. 2020) is ("norm", "self_attention", "dropout",
"residual"). Variants edit this list. A step "a+b" applies a and b to the same value and adds the results:
"self_attention+feed_forward" is the parallel layer of GPT-J (Wang & Komatsuzaki 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import jax
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.padding import Padding
from attention_research.layers.residuals.plain import PlainResidual
from attention_research.layers.shift import Shift

Steps = tuple[tuple[str, ...], ...]
WITHOUT_MODULE = ("dropout",)
#: Children that return only an array, without aux.
PLAIN = ("norm", "shift")
#: Default constructors of children.
DEFAULTS: dict[str, Callable[..., nnx.Module]] = {"padding": Padding, "residual": PlainResidual, "shift": Shift}


def named_steps(steps: Steps) -> Steps:
    """The attribute name of each step: kind, kind_2, kind_3, ... in order, so that parameter names are stable.

    >>> named_steps((("norm", "self_attention", "residual"), ("norm", "feed_forward", "residual")))
    (('norm', 'self_attention', 'residual'), ('norm_2', 'feed_forward', 'residual_2'))
    """
    seen: dict[str, int] = {}

    def name(kind: str) -> str:
        seen[kind] = seen.get(kind, 0) + 1
        return kind if seen[kind] == 1 else f"{kind}_{seen[kind]}"

    return tuple(tuple("+".join(name(kind) for kind in step.split("+")) for step in branch) for branch in steps)


def terms(kinds: str, names: str) -> Iterator[tuple[str, str]]:
    """The (kind, attribute) of each term of a step. Most steps have one term."""
    return zip(kinds.split("+"), names.split("+"), strict=True)


def _of_layer(child: Any, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a child asks for of ``inputs["layer"]``: the number of its layer, what a lower layer hands over."""
    given, layer = {}, inputs.get("layer", {})
    if getattr(child, "takes_depth", False):
        given["depth"] = layer["depth"]
    if getattr(child, "takes_handed", False):
        given["handed"] = layer["handed"][name]
    return given


def _tokens(child: Any, inputs: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The mask of non-padding tokens, for a child that takes it; otherwise empty."""
    return inputs.get("tokens", {}) if getattr(child, "takes_real", False) else {}


@runtime_checkable
class LooksBack(Protocol):
    """A child that mixes positions and caches what it needs of earlier positions, for decoding one at a time."""

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache for `batch` rows of `length` positions."""
        ...

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Any], index: Int[Array, ""], *, shared: Any = None
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:
        """Decodes position `index`. Returns (y, the updated cache, aux)."""
        ...


@runtime_checkable
class ReadsPrompt(LooksBack, Protocol):
    """A child with a cache that can also process a whole prompt in one call."""

    def prefill(self, x: Float[Array, "B P D"], length: int, **given: Any) -> tuple[Float[Array, "B P D"], Any, Any]:
        """Processes the first P of `length` positions. Returns (y, the cache after them, aux)."""
        ...


class Block(nnx.Module):
    """Applies its branches to x [B T D], one after the other.

    The step "residual" combines the value with the input of the branch (by default it adds them, `layers.residuals`),
    "shift" adds a learned scalar, and "padding" zeroes padding positions.

    `children` maps the kind of a step to the constructor of its module, which is called with `rngs`. The `inputs` of a
    call map a kind to the keyword arguments of that child (masks, the memory). All children except norms and shifts
    return (y, aux). A child whose class sets `takes_key` also gets a random `key` if the call has one. A child whose
    class sets `takes_real` also gets the mask of non-padding tokens, which `inputs` holds under "tokens". One whose
    class sets `takes_depth` gets the number of its layer as `depth`, and one that sets `takes_handed` gets as `handed`
    what the child of the same name in a lower layer returned in ``aux["handed"]``. The stack gives both under "layer".
    In a decoding step, a child with a memory whose class sets `takes_offset` gets the position as `offset`.
    """

    def __init__(
        self, *, steps: Steps, children: Mapping[str, Callable[..., nnx.Module]], dropout_rate: float, rngs: nnx.Rngs
    ):
        names = named_steps(steps)
        self.branches = tuple(tuple(zip(kinds, named, strict=True)) for kinds, named in zip(steps, names, strict=True))
        self.dropout_rate = dropout_rate
        children = {**DEFAULTS, **children}
        for kind, name in self._terms():
            if kind not in WITHOUT_MODULE:
                if kind not in children:
                    known = ", ".join(sorted([*children, *WITHOUT_MODULE]))
                    raise ValueError(f"steps: this block has no {kind!r}; its steps are among {known}")
                setattr(self, name, children[kind](rngs=rngs))

    def _terms(self) -> Iterator[tuple[str, str]]:
        """The (kind, attribute) of every term of every step, in order."""
        return (term for branch in self.branches for step in branch for term in terms(*step))

    def run(
        self, x: Float[Array, "B T D"], key: Key[Array, ""] | None, apply: Callable[[str, str, int, Array], Array]
    ) -> Float[Array, "B _ D"]:
        """Runs the branches. `apply(kind, name, position in the list, y)` runs every step but dropout and residual."""
        for number in range(len(self.branches)):
            x = self.branch(number, x, x, key, apply)
        return x

    def branch(
        self, number: int, stream: Float[Array, "B T D"], x: Float[Array, "B T D"], key: Key[Array, ""] | None,
        apply: Callable[[str, str, int, Array], Array],
    ) -> Float[Array, "B _ D"]:  # fmt: skip
        """Runs one branch on x. Its residual combines the value with `stream`."""
        position = sum(1 for branch in self.branches[:number] for step in branch for _ in terms(*step))
        for step in self.branches[number]:
            values = []
            for kind, name in terms(*step):
                position += 1
                if kind == "residual":
                    values.append(getattr(self, name)(stream, x))
                elif kind == "dropout":
                    own = None if key is None else jax.random.fold_in(key, position)
                    values.append(dropout(x, self.dropout_rate, own))
                else:
                    values.append(apply(kind, name, position, x))
            x = reduce(add, values)
        return x

    def __call__(
        self, x: Float[Array, "B T D"], inputs: Mapping[str, Mapping[str, Any]], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B _ D"], dict[str, Any]]:
        """Returns (y, {child name: its aux}). y has the length of x unless a child shortens the sequence."""
        collected: dict[str, Any] = {}
        return self.run(x, key, self.applied(inputs, key, collected)), collected

    def applied(
        self, inputs: Mapping[str, Mapping[str, Any]], key: Key[Array, ""] | None, collected: dict[str, Any]
    ) -> Callable[[str, str, int, Array], Array]:
        """The function that runs the children in a call. It adds their aux to `collected`."""

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            child = getattr(self, name)
            if kind in PLAIN:
                return child(y)
            draws = getattr(child, "takes_key", False)
            own = {"key": jax.random.fold_in(key, position)} if draws and key is not None else {}
            given = {**inputs.get(kind, {}), **_tokens(child, inputs), **_of_layer(child, name, inputs)}
            y, collected[name] = child(y, **given, **own)
            return y

        return apply

    def start(self, batch: int, length: int, dtype: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The initial decoding state.

        ``memory`` holds, for each child with a memory among its inputs, what the child caches of it (read only).
        ``caches`` holds the empty caches of all other children that have a `start` method.
        """
        kept: dict[str, dict[str, Any]] = {"caches": {}, "memory": {}}
        for kind, name in self._terms():
            child: Any = getattr(self, name, None)
            given = inputs.get(kind, {})
            if "memory" in given:
                kept["memory"][name] = child.cache_memory(**given)
            elif isinstance(child, LooksBack):
                kept["caches"][name] = child.start(batch, length, dtype)
        return kept

    def prefill(
        self, x: Float[Array, "B P D"], length: int, inputs: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Float[Array, "B P D"], dict[str, Any], dict[str, Any]]:
        """Processes the first P of `length` positions.

        Returns (y, the state of `start` with the caches filled, {child name: its aux}).
        """
        kept: dict[str, dict[str, Any]] = {"caches": {}, "memory": {}}
        collected: dict[str, Any] = {}

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            del position
            child, given = getattr(self, name), inputs.get(kind, {})
            if kind in PLAIN:
                return child(y)
            if isinstance(child, LooksBack):
                assert isinstance(child, ReadsPrompt), f"{name}: {type(child).__name__} cannot begin with a prompt"
                of_layer = _of_layer(child, name, inputs)
                y, kept["caches"][name], collected[name] = child.prefill(y, length, **given, **of_layer)
            else:
                y, collected[name] = child(y, **given, **_tokens(child, inputs))
            return y

        return self.run(x, None, apply), kept, collected

    def step(
        self, x: Float[Array, "B 1 D"], caches: dict[str, Any], memory: dict[str, Any], index: Int[Array, ""],
        shared: Mapping[str, Any],
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:  # fmt: skip
        """Decodes one position. Returns (y, the updated caches, {child name: its aux}).

        `shared` maps the kind of a child to the module that the stack owns for it, and "layer" as in a call.
        """
        grown, collected = dict(caches), {}

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            del position
            child = getattr(self, name)
            if kind in PLAIN:
                return child(y)
            given = {"shared": shared.get(kind), **_of_layer(child, name, shared)}
            if name in caches:
                y, grown[name], collected[name] = child.step(y, caches[name], index, **given)
            elif name in memory:
                if getattr(child, "takes_offset", False):
                    given["offset"] = index
                y, collected[name] = child.attend_cached(y, memory[name], **given)
            else:
                y, collected[name] = child(y)
            return y

        return self.run(x, None, apply), grown, collected

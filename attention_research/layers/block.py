"""A block: residual branches, each a list of steps that name the block's children (after Mesh TensorFlow's layers).

Post-norm, LN(x + Dropout(Sublayer(x))) of Vaswani et al. 2017, is ("self_attention", "dropout", "residual", "norm");
pre-norm (Xiong et al. 2020) is ("norm", "self_attention", "dropout", "residual"); a variant is an edit of the list. A
step "a+b" is the sum of two of the same value: "self_attention+feed_forward" is the layer of GPT-J (Wang & Komatsuzaki
2021).
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
#: What maps the value to another and gives nothing beside it.
PLAIN = ("norm", "shift")
#: Children that a block has unless it is given others.
DEFAULTS: dict[str, Callable[..., nnx.Module]] = {"padding": Padding, "residual": PlainResidual, "shift": Shift}


def named_steps(steps: Steps) -> Steps:
    """The attribute of each step, in order: its kind, then kind_2, kind_3, ... (which keeps parameter names stable)."""
    seen: dict[str, int] = {}

    def name(kind: str) -> str:
        seen[kind] = seen.get(kind, 0) + 1
        return kind if seen[kind] == 1 else f"{kind}_{seen[kind]}"

    return tuple(tuple("+".join(name(kind) for kind in step.split("+")) for step in branch) for branch in steps)


def terms(kinds: str, names: str) -> Iterator[tuple[str, str]]:
    """(kind, attribute) of what a step is the sum of: mostly of one."""
    return zip(kinds.split("+"), names.split("+"), strict=True)


def _tokens(child: Any, inputs: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Which tokens are not padding, for a child that takes it."""
    return inputs.get("tokens", {}) if getattr(child, "takes_real", False) else {}


@runtime_checkable
class LooksBack(Protocol):
    """A child that mixes positions and keeps of the earlier ones what it needs, so that it can go on by one."""

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """The cache of `batch` empty rows that will have `length` positions."""
        ...

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Any], index: Int[Array, ""], *, shared: Any = None
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:
        """Position `index`: (y, the grown cache, aux)."""
        ...


@runtime_checkable
class ReadsPrompt(LooksBack, Protocol):
    """One that also takes the beginning of its sequence at once."""

    def prefill(self, x: Float[Array, "B P D"], length: int, **given: Any) -> tuple[Float[Array, "B P D"], Any]:
        """The first P of `length` positions: (y, the cache after them)."""
        ...


class Block(nnx.Module):
    """Applies its branches in turn to x [B T D]; "residual" joins the value with which its branch began (by default it
    adds them, `layers.residuals`), "shift" adds a learned scalar, "padding" sets to 0 what is no token.

    `children` maps a step's kind to the constructor of its module, called with `rngs`. A call's `inputs` maps a kind to
    the keyword arguments of that child (masks, the memory); a child that is not a norm returns (y, aux). A child whose
    class says `takes_key` is also given a random `key`, where the call has one, and a child whose class says
    `takes_real` the mask of non-padding tokens: the inputs of "tokens".
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
        """(kind, attribute) of everything in the list, in order."""
        return (term for branch in self.branches for step in branch for term in terms(*step))

    def run(
        self, x: Float[Array, "B T D"], key: Key[Array, ""] | None, apply: Callable[[str, str, int, Array], Array]
    ) -> Float[Array, "B _ D"]:
        """Walks the branches; `apply` (kind, name, place in the list, y) -> y runs what is no dropout or residual."""
        position = 0
        for branch in self.branches:
            stream = x
            for step in branch:
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
        """(y, {child name: what it gave beside its output}); as long as x, but for a child that shortens it."""
        collected: dict[str, Any] = {}

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            child = getattr(self, name)
            if kind in PLAIN:
                return child(y)
            draws = getattr(child, "takes_key", False)
            own = {"key": jax.random.fold_in(key, position)} if draws and key is not None else {}
            y, collected[name] = child(y, **inputs.get(kind, {}), **_tokens(child, inputs), **own)
            return y

        return self.run(x, key, apply), collected

    def start(self, batch: int, length: int, dtype: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """``memory``, what each child that is given a memory caches of it (read only), and ``caches``, the caches that
        grow, still empty: of every other child that has a `start`."""
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
    ) -> tuple[Float[Array, "B P D"], dict[str, Any]]:
        """The first P of `length` positions at once: (y, what `start` gives, with what these left in the caches)."""
        kept: dict[str, dict[str, Any]] = {"caches": {}, "memory": {}}

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            del position
            child, given = getattr(self, name), inputs.get(kind, {})
            if kind in PLAIN:
                return child(y)
            if isinstance(child, LooksBack):
                assert isinstance(child, ReadsPrompt), f"{name}: {type(child).__name__} cannot begin with a prompt"
                y, kept["caches"][name] = child.prefill(y, length, **given)
            else:
                y, _ = child(y, **given, **_tokens(child, inputs))
            return y

        return self.run(x, None, apply), kept

    def step(
        self, x: Float[Array, "B 1 D"], caches: dict[str, Any], memory: dict[str, Any], index: Int[Array, ""],
        shared: Mapping[str, Any],
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:  # fmt: skip
        """One position: (y, the grown caches, what the children gave beside their outputs)."""
        grown, collected = dict(caches), {}

        def apply(kind: str, name: str, position: int, y: Array) -> Array:
            del position
            child = getattr(self, name)
            if kind in PLAIN:
                return child(y)
            if name in caches:
                y, grown[name], collected[name] = child.step(y, caches[name], index, shared=shared.get(kind))
            elif name in memory:
                y, collected[name] = child.attend_cached(y, memory[name], shared=shared.get(kind))
            else:
                y, collected[name] = child(y)
            return y

        return self.run(x, None, apply), grown, collected

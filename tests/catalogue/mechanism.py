"""What the catalogue knows of a mechanism: its arrays, axis by axis, and the laws that it obeys.

One description serves the tests (each law that is claimed here is tested), the benchmarks (the same arrays at any
length) and the generated documentation. Paper and equation stand in the first paragraph of the kernel's module.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

#: Sizes of the axes that the whole codebase names alike: distinct primes, so that a swapped axis fails.
SIZES = MappingProxyType(
    {"B": 2, "T": 11, "S": 13, "N": 3, "H": 5, "D": 17, "V": 23, "Dq": 7, "Dk": 19, "Dv": 29, "R": 31, "1": 1}
)
NOTHING: Mapping[str, Any] = MappingProxyType({})
FIRST = re.compile(
    r"(?P<title>.+?), (?P<paper>[^:]+? \d{4}[a-z]?(?: \([^)]*\))?)(?:, (?P<where>[^:]+))?: (?P<equation>.+)"
)


Draw = Callable[[np.random.Generator, tuple[int, ...]], ArrayLike]


@dataclass(frozen=True)
class Empty:
    """Setting `mask` False at `at` leaves the outputs at `rows` without anything to attend to: zero, zero gradient."""

    mask: str
    at: Any
    rows: Any


@dataclass(frozen=True)
class Mechanism:
    """A kernel with example arrays and its laws.

    Attributes:
        name: a slug, unique in the catalogue.
        function: the kernel; called with `inputs` and `settings` as keyword arguments.
        inputs: argument -> axes. "B T D" is float (standard normal), "" a float scalar, "bool B S" a mask (True = real
            or visible), "int B" whole numbers (`draw` says which), "key" a random key.
        outputs: the axes of each output array, in order.
        oracle: "tests/file.py::test" that compares with an implementation sharing no code.
        settings: static keyword arguments.
        sizes: sizes of axes beyond `SIZES`, or instead of them.
        draw: argument -> how its values are drawn, where not as above.
        permutable: axes along which permuting all inputs permutes the outputs that have the axis and leaves the rest.
        causal: the axis along which an output has exactly zero gradient from later inputs.
        padding: (mask, axis): inputs where the mask is False never change an output at a real position.
        empty: how a row is made empty.
        cached: from (inputs by name, with settings applied) to the outputs, one position at a time.
        blockwise: memory for the scores is linear in the number of keys.
        flat: argument -> why its gradient is exactly zero.
        no_bfloat16: why the bfloat16 rule does not apply (a choice among scores may flip).
        no_finite_differences: why finite differences do not apply.
        loose: (argument, axis) whose size may differ from the axis of that name elsewhere.
        refuses_empty: axes that need at least one element by definition; an empty one raises ValueError naming it.
        grows: the axes that grow with the sequence length, for benchmarks; empty where there is no such axis.
    """

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    oracle: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    draw: Mapping[str, Draw] = field(default_factory=dict)
    permutable: tuple[str, ...] = ()
    causal: str | None = None
    padding: tuple[str, str] | None = None
    empty: Empty | None = None
    cached: Callable[..., Any] | None = None
    blockwise: bool = False
    flat: Mapping[str, str] = field(default_factory=dict)
    no_bfloat16: str | None = None
    no_finite_differences: str | None = None
    loose: tuple[tuple[str, str], ...] = ()
    refuses_empty: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()

    def size(self, axis: str, larger: Mapping[str, int] = NOTHING) -> int:
        """The size of an axis, `larger` first."""
        return {**SIZES, **self.sizes, **larger}[axis]

    def axes(self, argument: str) -> list[str]:
        """The axis letters of an argument, its type left out; none for a key."""
        return [word for word in self.inputs[argument].split() if word not in ("bool", "int", "key")]

    def kind(self, argument: str) -> str:
        """ "float", "bool", "int" or "key"."""
        words = self.inputs[argument].split()
        return words[0] if words and words[0] in ("bool", "int", "key") else "float"

    def floats(self) -> list[str]:
        """The arguments that have a gradient."""
        return [name for name in self.inputs if self.kind(name) == "float"]

    def arrays(self, larger: Mapping[str, int] = NOTHING, seed: int = 0) -> dict[str, Any]:
        """Example inputs, float32 arrays of NumPy but for keys; `larger` gives some axes other sizes."""
        random = np.random.default_rng(seed)
        made: dict[str, Any] = {}
        for name in self.inputs:
            shape = tuple(self.size(axis, larger) for axis in self.axes(name))
            kind = self.kind(name)
            if kind == "key":
                made[name] = jax.random.key(seed)
            elif name in self.draw:
                dtype = {"float": np.float32, "bool": np.bool_, "int": np.int32}[kind]
                made[name] = np.array(self.draw[name](random, shape), dtype)
            elif kind == "bool":
                mask = random.random(shape) < 0.7
                mask[..., 0] = True
                made[name] = mask
            elif kind == "float":
                made[name] = np.asarray(random.standard_normal(shape), np.float32)
            else:
                raise ValueError(f"{self.name}: draw: nothing says how the whole numbers {name} are drawn")
        return made

    def call(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """The outputs as a tuple of arrays."""
        result = self.function(**inputs, **self.settings)
        return tuple(jax.tree.leaves(result))

    @property
    def file(self) -> str:
        """The path of the kernel's file from the repository's root."""
        return inspect.unwrap(self.function).__module__.replace(".", "/") + ".py"

    def citation(self) -> dict[str, Any]:
        """{"title", "paper", "where", "equation"} from the first paragraph of the kernel's module.

        Raises ValueError where it is not "Title, Authors Year (arXiv ...), section or equation: formula."
        """
        text = inspect.getdoc(inspect.getmodule(inspect.unwrap(self.function))) or ""
        paragraph = " ".join(text.split("\n\n")[0].split()).removesuffix(".")
        found = FIRST.fullmatch(paragraph)
        if found is None:
            raise ValueError(
                f"{self.file}: first paragraph: expected 'Title, Authors Year, where: equation.', got {paragraph!r}"
            )
        return found.groupdict()

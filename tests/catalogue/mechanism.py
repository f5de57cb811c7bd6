"""The description of a mechanism in the catalogue: its arrays, axis by axis, and the laws that it satisfies.

One description serves the tests (each claimed law is tested), a benchmark (the same arrays at any length) and
docs/catalogue.md. Arrays and axes are those of the kernel's signature. Paper and equation are in the first paragraph of
the kernel's module. The description adds the rest.
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

#: Sizes of the axes with fixed names in the whole codebase: distinct primes, so that a swapped axis fails.
SIZES = MappingProxyType(
    {"B": 2, "T": 11, "S": 13, "N": 3, "H": 5, "D": 17, "V": 23, "Dq": 7, "Dk": 19, "Dv": 29, "R": 31, "1": 1}
)
NOTHING: Mapping[str, Any] = MappingProxyType({})
FIRST = re.compile(
    r"(?P<title>.+?), (?P<paper>[^:]+? \d{4}[a-z]?(?: \([^)]*\))?)(?:, (?P<where>[^:]+))?: (?P<equation>.+)"
)


#: An array in an annotation, as written or as resolved by beartype.
ARRAY = re.compile(r"(Float|Bool|Int|Key)\[[\w.]*Array, '([^']*)'\]|(PRNGKeyArray)")
KINDS = {"Float": "", "Bool": "bool ", "Int": "int "}
#: The axes that grow with the length of a sequence or the height of an image.
GROWING = ("T", "S", "Y")

Draw = Callable[[np.random.Generator, tuple[int, ...]], ArrayLike]


def axes_of(annotation: object) -> list[str]:
    """The arrays in an annotation: "B T D" for floats, "bool B S", "int B", "key". A mask is shared by all queries.

    >>> axes_of("tuple[Float[Array, '#B T D'], Bool[Array, '#B #N #T #S'] | None]")
    ['B T D', 'bool B 1 1 S']
    """
    found = []
    for type_, axes, key in ARRAY.findall(str(annotation)):
        ones = ("#N", "#T") if type_ == "Bool" else ()
        words = ("1" if word in ones else word.lstrip("#") for word in axes.split())
        found.append("key" if key or type_ == "Key" else (KINDS[type_] + " ".join(words)).strip())
    return found


def letters(axes: str) -> list[str]:
    """The axes without the dtype."""
    return [word for word in axes.split() if word not in ("bool", "int", "key")]


@dataclass(frozen=True)
class Mechanism:
    """A kernel with example arrays and its laws.

    Attributes:
        function: the kernel, called with `inputs` and `settings` as keyword arguments.
        name: a slug, unique in the catalogue; by default the function's name.
        inputs: argument -> axes, if they differ from the first form in the signature (`axes_of`). "B T D" is float
            (standard normal), "" a float scalar, "bool B S" a mask (True = real or visible), "int B" integers (`draw`
            defines which), "key" a random key. After construction it holds all arrays of the mechanism.
        first: the arguments whose values are drawn first, separated by blanks; then the others in signature order.
        without: arrays of the signature that are not passed, separated by blanks.
        itself: the axis S equals T: a sequence attends to itself.
        outputs: the axes of each output array, in order; by default those of the signature.
        oracle: "file::test": test_test in tests/kernels/test_file.py compares with an independent implementation.
        settings: static keyword arguments.
        sizes: sizes of axes that are not in `SIZES`, or that differ from it.
        draw: argument -> how its values are drawn, if not as above.
        permutable: axes along which permuting all inputs permutes the outputs that have the axis and keeps the others.
        causal: the axis along which an output has exactly zero gradient from later inputs.
        empty: the axes where an all-False `mask` leaves nothing to attend to: output and gradient are zero.
        breaks: laws that the arrays suggest and the mechanism does not satisfy. "padding": inputs where `mask` is False
            never change an output at a real position. "empty": as above. "grows": the axes of `GROWING` may have any
            size.
        cached: a function from (inputs by name, with settings applied) to the outputs, one position at a time.
        blockwise: memory for the scores is linear in the number of keys.
        flat: argument -> why its gradient is exactly zero.
        no_bfloat16: why the bfloat16 rule does not apply (for example, a choice among scores may flip).
        no_finite_differences: why finite differences do not apply.
        loose: (argument, axis) whose size may differ from the same axis elsewhere.
        refuses_empty: axes that need at least one element by definition; an empty one raises ValueError naming it.
    """

    function: Callable[..., Any]
    name: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    first: str = ""
    without: str = ""
    itself: bool = False
    outputs: tuple[str, ...] = ()
    oracle: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    draw: Mapping[str, Draw] = field(default_factory=dict)
    permutable: tuple[str, ...] = ()
    causal: str | None = None
    empty: Any = 0
    breaks: tuple[str, ...] = ()
    cached: Callable[..., Any] | None = None
    blockwise: bool = False
    flat: Mapping[str, str] = field(default_factory=dict)
    no_bfloat16: str | None = None
    no_finite_differences: str | None = None
    loose: tuple[tuple[str, str], ...] = ()
    refuses_empty: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kernel = inspect.unwrap(self.function)
        signature = inspect.signature(kernel)
        left_out = {*self.without.split(), *self.settings, "scale"}
        found = {name: axes_of(one.annotation) for name, one in signature.parameters.items() if name not in left_out}
        renamed = lambda axes: " ".join("T" if self.itself and word == "S" else word for word in axes.split(" "))
        derived = {name: renamed(axes[0]) for name, axes in found.items() if axes}
        object.__setattr__(self, "name", self.name or kernel.__name__)
        given = {**derived, **self.inputs}
        object.__setattr__(self, "inputs", {name: given[name] for name in (*self.first.split(), *given)})
        results = tuple(renamed(" ".join(letters(axes))) for axes in axes_of(signature.return_annotation))
        object.__setattr__(self, "outputs", self.outputs or results)

    @property
    def grows(self) -> tuple[str, ...]:
        """The axes that grow with the sequence."""
        used = {axis for name in self.inputs for axis in self.axes(name)}
        return () if "grows" in self.breaks else tuple(axis for axis in GROWING if axis in used)

    def keeps(self, law: str) -> bool:
        """Whether a law of masks, "padding" or "empty", is claimed."""
        return "mask" in self.inputs and law not in self.breaks

    def size(self, axis: str, larger: Mapping[str, int] = NOTHING) -> int:
        """The size of an axis. `larger` has precedence."""
        return {**SIZES, **self.sizes, **larger}[axis]

    def axes(self, argument: str) -> list[str]:
        """The axis letters of an argument without its dtype. A key has none."""
        return letters(self.inputs[argument])

    def kind(self, argument: str) -> str:
        """ "float", "bool", "int" or "key"."""
        words = self.inputs[argument].split()
        return words[0] if words and words[0] in ("bool", "int", "key") else "float"

    @property
    def scaled(self) -> bool:
        """Whether the kernel has an argument `scale` that may be an array."""
        scale = inspect.signature(inspect.unwrap(self.function)).parameters.get("scale")
        return scale is not None and ("Scale" in str(scale.annotation) or bool(axes_of(scale.annotation)))

    def floats(self) -> list[str]:
        """The arguments that have a gradient."""
        return [name for name in self.inputs if self.kind(name) == "float"]

    def arrays(self, larger: Mapping[str, int] = NOTHING, seed: int = 0) -> dict[str, Any]:
        """Example inputs: float32 NumPy arrays, except for keys. `larger` gives some axes other sizes."""
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
                raise ValueError(f"{self.name}: draw: no entry defines how the integers {name} are drawn")
        return made

    def call(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """The outputs as a tuple of arrays."""
        result = self.function(**inputs, **self.settings)
        return tuple(jax.tree.leaves(result))

    @property
    def test(self) -> tuple[str, str]:
        """(path from the repository's root, function) of the oracle."""
        file, _, test = self.oracle.partition("::")
        return f"tests/kernels/test_{file}.py", f"test_{test}"

    @property
    def file(self) -> str:
        """The path of the kernel's file from the repository's root."""
        return inspect.unwrap(self.function).__module__.replace(".", "/") + ".py"

    def citation(self) -> dict[str, Any]:
        """{"title", "paper", "where", "equation"} from the first paragraph of the kernel's module.

        Raises ValueError if it is not "Title, Authors Year (arXiv ...), section or equation: formula."
        """
        text = inspect.getdoc(inspect.getmodule(inspect.unwrap(self.function))) or ""
        paragraph = " ".join(text.split("\n\n")[0].split()).removesuffix(".")
        found = FIRST.fullmatch(paragraph)
        if found is None:
            raise ValueError(
                f"{self.file}: first paragraph: expected 'Title, Authors Year, where: equation.', got {paragraph!r}"
            )
        return found.groupdict()

"""The annotations of settings: which values a setting accepts, as Python values and as text of the command line.

Values are stored in JSON form. Tuples become lists and NumPy scalars become Python scalars. An int given for a float
becomes a float, so that 1 and 1.0 have the same hash. A float without a fraction given for an int becomes an int (1e5
is 100000). -0.0 becomes 0.0. A bool is not accepted as an int. NaN and infinities are rejected.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from attention_research import registry, signatures
from attention_research.config.values import EXACT, fraction, literal, plain, truth, whole


class Mismatch(ValueError):
    """An annotation does not accept a value. The message says what was expected and what was given.

    `below` is the path from the setting to the wrong part of the value, such as ".bleu"; "" means the whole value.
    """

    def __init__(self, message: str, below: str = ""):
        super().__init__(message)
        self.below = below


class TooLarge(Mismatch):
    """An int is above `MOST`."""


#: The ranges of `signatures`, described in words -> a test of the value.
RANGES: dict[str, Callable[[Any], bool]] = {
    "": lambda value: True,
    "at least 1": lambda value: value >= 1,
    "at least 0": lambda value: value >= 0,
    "from 0 to 2147483647": lambda value: 0 <= value <= 2**31 - 1,
    "above 0": lambda value: value > 0,
    "from 0 to below 1": lambda value: 0 <= value < 1,
}
#: The largest int of a setting: JAX counts steps, sizes and ids with 32 bits.
MOST = 2**31 - 1
_WORDS = {int: "an int", float: "a float", bool: "true or false", str: "a string"}
_ELEMENT = re.compile(r"\s*,\s*")
_PARSERS = {int: whole, float: fraction, bool: truth}
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


@dataclass(frozen=True)
class Scalar:
    """An int, float, bool or str in a range."""

    base: type[Any]
    range: str = ""

    @property
    def words(self) -> str:
        return _WORDS[self.base] + (f" {self.range}" if self.range else "")

    def check(self, value: Any) -> Any:
        if self.base is float and type(value) is int and abs(value) < 2**1023:
            value = float(value)
        if self.base is int and type(value) is float and value.is_integer() and abs(value) <= EXACT:
            value = int(value)
        if type(value) is not self.base or (self.base is float and not math.isfinite(value)):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        if isinstance(value, str) and not _encodes(value):
            raise Mismatch(f"expected {self.words} in UTF-8; got {_show(value)}")
        if not RANGES[self.range](value):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        if self.base is int and value > MOST:
            raise TooLarge(f"expected {self.words}, and at most {MOST}; got {_show(value)}")
        return value + 0.0 if self.base is float else value

    def parse(self, text: str) -> Any:
        return self.check(text if self.base is str else _PARSERS[self.base](text.strip()))


@dataclass(frozen=True)
class Choice:
    """Literal[...]."""

    values: tuple[Any, ...]

    @property
    def words(self) -> str:
        return f"one of {', '.join(map(str, self.values))}"

    def check(self, value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in self.values):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        return value

    def parse(self, text: str) -> Any:
        by_text = {str(choice).lower() if isinstance(choice, bool) else str(choice): choice for choice in self.values}
        text = text.strip()
        return self.check(by_text[text] if text in by_text else text)


@dataclass(frozen=True)
class Optional:
    """X | None."""

    inner: Any

    @property
    def words(self) -> str:
        return f"{self.inner.words}, or none"

    def check(self, value: Any) -> Any:
        return None if value is None else _reworded(self, self.inner.check, value)

    def parse(self, text: str) -> Any:
        return None if text.strip() in ("none", "None") else _reworded(self, self.inner.parse, text)


@dataclass(frozen=True)
class Tuple:
    """tuple[X, ...] (one item, repeated) or tuple[X, Y]."""

    items: tuple[Any, ...]
    repeated: bool

    @property
    def words(self) -> str:
        if self.repeated:
            return f"a tuple, each item {self.items[0].words}"
        return f"a tuple of {len(self.items)}: {' and '.join(item.words for item in self.items)}"

    def check(self, value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)) or not (self.repeated or len(value) == len(self.items)):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        items = self.items * len(value) if self.repeated else self.items
        return [item.check(element) for item, element in zip(items, value, strict=True)]

    def parse(self, text: str) -> list[Any]:
        bare = not any(bracket in text for bracket in "()[]{}'\"")
        texts = all(isinstance(item, Scalar) and item.base is str for item in self.items)
        value = None if bare and texts else literal(text)  # 0,1 are two texts, too
        if isinstance(value, (list, tuple)):
            return self.check(value)
        words = _ELEMENT.split(text.strip().removesuffix(","))  # 1,2 or norm,residual, without quotes
        items = self.items * len(words) if self.repeated else self.items
        if len(words) != len(items) or not bare:
            raise Mismatch(f"expected {self.words}; got {_show(text)}")
        return [item.parse(word) for item, word in zip(items, words, strict=True)]


@dataclass(frozen=True)
class Section:
    """Child["family"] or Child["family", "other"]: a child section, which can be inherited from sections of its own
    name or of the name "other"."""

    family: str
    other: str | None = None

    @property
    def words(self) -> str:
        return f"a kind of {self.family} ({', '.join(registry.FAMILIES[self.family])}) or a dict of its settings"

    def check(self, value: Any) -> dict[str, Any]:
        """The section as a dict. The name of a kind is short for dict(kind=name)."""
        if isinstance(value, str):
            return {"kind": value}
        if not isinstance(value, dict):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        return value

    def parse(self, text: str) -> dict[str, Any]:
        value = literal(text) if text.lstrip().startswith("{") else text.strip()
        return self.check(text if value is None else plain(value))


@dataclass(frozen=True)
class Named:
    """Children["family"]: any number of sections under names that the config chooses."""

    item: Section

    @property
    def words(self) -> str:
        return f"a dict of name to section, each {self.item.words}"

    def check(self, value: Any) -> dict[str, Any]:
        value = {} if isinstance(value, (list, tuple)) and not value else value
        if not isinstance(value, dict):
            raise Mismatch(f"expected {self.words}; got {_show(value)}")
        wrong = [name for name in value if not (isinstance(name, str) and _NAME.fullmatch(name))]
        if wrong:
            raise Mismatch(f"expected names of letters, digits and _, beginning with a letter; got {_show(wrong[0])}")
        return {name: self._section(name, item) for name, item in value.items()}

    def _section(self, name: str, item: Any) -> dict[str, Any]:
        try:
            return self.item.check(item)
        except Mismatch as error:
            raise Mismatch(str(error), f".{name}") from None

    def parse(self, text: str) -> dict[str, Any]:
        value = literal(text)
        return self.check(text if value is None else plain(value))


Annotation = Scalar | Choice | Optional | Tuple | Section | Named


def read(node: ast.expr) -> Annotation:
    """Parses the annotation of a parameter. Raises `Mismatch` if it is not one of the supported annotations."""
    match node:
        case ast.Constant(value=str() as text):
            return read(ast.parse(text, mode="eval").body)
        case ast.Name(id="int" | "float" | "bool" | "str" as name):
            return Scalar({"int": int, "float": float, "bool": bool, "str": str}[name])
        case ast.Name(id=name) | ast.Attribute(attr=name):
            base, *words = get_args(getattr(signatures, name, None)) or (None,)
            if base in (int, float) and words and words[0] in RANGES:
                return Scalar(base, words[0])
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return Optional(read(left))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name == "Literal":
                return Choice(tuple(ast.literal_eval(item) for item in items))
            if name == "Child" and all(isinstance(item, ast.Constant) for item in items):
                return _section(*(ast.literal_eval(item) for item in items))
            if name == "Children" and isinstance(inner, ast.Constant):
                return Named(_section(ast.literal_eval(inner)))
            if name == "tuple" and len(items) == 2 and isinstance(items[1], ast.Constant) and items[1].value is ...:
                return Tuple((read(items[0]),), repeated=True)
            if name == "tuple":
                return Tuple(tuple(read(item) for item in items), repeated=False)
    raise Mismatch(f"the annotation {ast.unparse(node)} is not in the vocabulary of signatures.py")


def _section(family: str, other: str | None = None) -> Section:
    if family not in registry.FAMILIES:
        raise Mismatch(f"no family {family!r} in registry.py")
    return Section(family, other)


def _reworded(annotation: Annotation, function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except TooLarge:
        raise
    except Mismatch:
        raise Mismatch(f"expected {annotation.words}; got {_show(value)}") from None


def _encodes(text: str) -> bool:
    """Whether a text can be written to a file. Python reads other bytes of the command line as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

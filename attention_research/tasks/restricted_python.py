"""An interpreter for a small subset of Python: functions of one list of numbers whose body is one expression.

    def f ( xs ) : return sum ( [ x ** 2 for x in xs if x % 2 == 0 ] )

Generated text is never executed. It is parsed by `ast`, and an interpreter evaluates the few kinds of nodes listed
here, on integers, booleans and lists of them. Any other node, name, method, attribute or keyword is rejected. Limits
prevent long computations and large values: at most `STEPS` visits of nodes, numbers up to `LARGEST`, exponents up to
`POWER`, and lists of numbers or of lists of numbers. No list is longer than the argument.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attention_research.errors import RunError

STEPS, LARGEST, POWER = 20_000, 10**12, 4
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
#: Name of an allowed function -> (the function, its allowed keywords).


def _sum(values: Sequence[Any], start: Any = 0) -> int:
    """`sum` of numbers. Lists are rejected: their sum grows without any step that counts."""
    if any(isinstance(one, list) for one in (start, *values)):
        raise Refused("a sum of lists")
    return sum(values, start)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "abs": (abs, frozenset()),
    "len": (len, frozenset()),
    "sum": (_sum, frozenset()),
    "max": (max, frozenset({"default"})),
    "min": (min, frozenset({"default"})),
    "sorted": (sorted, frozenset({"reverse"})),
}

Value = int | bool | list


class Refused(RunError):
    """The program is not valid Python, is outside of the supported subset, or fails on its argument."""


def function_of(text: str) -> Callable[[Sequence[int]], Value]:
    """The function of a list of integers that a program defines.

    Raises `Refused` if the program does not define one. The function raises it if it fails on its argument.

    >>> function_of("def f ( xs ) : return max ( xs ) - min ( xs )")([3, 9, 4])
    6
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"not valid Python: {type(error).__name__}") from None
    match tree.body:
        case [
            ast.FunctionDef(
                args=ast.arguments(posonlyargs=[], args=[ast.arg(arg=name, annotation=None)], vararg=None,
                                   kwonlyargs=[], kwarg=None, defaults=[]),
                body=[ast.Return(value=ast.expr() as body)], decorator_list=[], returns=None,
            )
        ]:  # fmt: skip
            return lambda numbers: _called(body, {name: list(numbers)})
    raise Refused("not a function of one argument with a single return statement")


def _called(body: ast.expr, names: dict[str, Value]) -> Value:
    try:
        return _Evaluation().value(body, names)
    except (ArithmeticError, TypeError, ValueError, IndexError, RecursionError, MemoryError) as error:
        raise Refused(f"{type(error).__name__} while it ran") from None


class _Evaluation:
    """Evaluates an expression and counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def value(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        """The value of an expression, given the values of names."""
        self.steps += 1
        if self.steps > STEPS:
            raise Refused(f"more than {STEPS:,} steps")
        value = self._value(node, names)
        if isinstance(value, int) and abs(value) > LARGEST:
            raise Refused("a number that is too large")
        return value

    def _value(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        of: Callable[[ast.expr], Any] = lambda child: self.value(child, names)
        match node:
            case ast.Constant(value=int() as value):  # a bool is an int
                return value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(op=op) if type(op) in _BINARY:
                return _of_numbers(_BINARY[type(op)], of(node.left), of(node.right))
            case ast.UnaryOp(op=op) if type(op) in _UNARY:
                return _UNARY[type(op)](of(node.operand))
            case ast.Compare(ops=[op], comparators=[other]) if type(op) in _COMPARED:
                return _COMPARED[type(op)](of(node.left), of(other))
            case ast.Subscript(slice=ast.Slice(step=None) as cut):
                return of(node.value)[slice(*(None if end is None else of(end) for end in (cut.lower, cut.upper)))]
            case ast.Subscript():
                return of(node.value)[of(node.slice)]
            case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS and name not in names:
                return self._call(node, names, *_FUNCTIONS[name])
            case ast.ListComp(generators=[ast.comprehension(target=ast.Name(id=name), is_async=0) as over]):
                items = (({**names, name: item}) for item in of(over.iter))
                kept = (own for own in items if all(self.value(test, own) for test in over.ifs))
                return _shallow([self.value(node.elt, own) for own in kept])
        raise Refused(f"{type(node).__name__} is not evaluated")

    def _call(
        self, node: ast.Call, names: Mapping[str, Value], function: Callable[..., Any], keywords: frozenset[str]
    ) -> Value:
        given: dict[Any, Value] = {keyword.arg: self.value(keyword.value, names) for keyword in node.keywords}
        if not given.keys() <= keywords:
            raise Refused("a keyword that is not evaluated")
        return function(*(self.value(argument, names) for argument in node.args), **given)


def _shallow(values: list[Value]) -> list[Value]:
    """The list. Lists of lists of lists are rejected: one list, repeated in each, grows with few steps."""
    if any(isinstance(leaf, list) for value in values if isinstance(value, list) for leaf in value):
        raise Refused("a list of lists of lists")
    return values


def _of_numbers(function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """An operation on two integers. Operations on lists and exponents above `POWER` are rejected."""
    if isinstance(left, list) or isinstance(right, list):
        raise Refused("an operation on a list")
    if function is operator.pow and not 0 <= right <= POWER:
        raise Refused(f"a power that is not from 0 to {POWER}")
    return function(left, right)

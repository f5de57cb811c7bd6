"""Which kinds of a config compute a kernel: the kernels that the methods of a registered class call.

The calls are followed through functions and classes of the package, by the global names in their code. A section that a
config fills in is a kind of its own and is not followed.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from attention_research import registry
from tests.catalogue.mechanism import Mechanism
from tests.catalogue.names import KINDS, NO_LAYER

PACKAGE = "attention_research"
KERNELS = f"{PACKAGE}.kernels"
#: The packages of the classes that compute kernels, and families in them whose classes only read other modules.
COMPUTING = tuple(f"{PACKAGE}.{name}" for name in ("layers", "models", "tasks.captioning", "tasks.rationale"))
OBSERVERS = ("initialization",)


def kinds_of(mechanism: Mechanism) -> list[str]:
    """The kinds of a config that compute a mechanism, those with its name first. Empty for a kernel without a kind.

    An attention with the name of a mechanism computes it, perhaps by other functions than its kernel.
    """
    same = () if mechanism.name in NO_LAYER or mechanism.name not in registry.ATTENTION else (mechanism.name,)
    found = KINDS.get(mechanism.name) or kinds_of_kernels().get(inspect.unwrap(mechanism.function))
    found = found or [f"attention.{name}" for name in same]
    return sorted(found, key=lambda kind: kind.partition(".")[2] not in mechanism.name)


@cache
def kinds_of_kernels() -> dict[Callable[..., Any], list[str]]:
    """Kernel -> the kinds that compute it, "family.kind", in the order of the registry. Each class is named once."""
    found, seen = defaultdict(list), set()
    for family in (one for one in registry.FAMILIES if one not in OBSERVERS):
        for kind in registry.FAMILIES[family]:
            place = registry.locate(family, kind)
            if place in seen or not place[0].startswith(COMPUTING):
                continue
            seen.add(place)
            for kernel in kernels_of(registry.lookup(family, kind)):
                found[kernel].append(f"{family}.{kind}")
    return dict(found)


def kernels_of(target: Any) -> set[Callable[..., Any]]:
    """The kernels that a class or function of the package calls, directly or through others."""
    found, seen, left = set(), {target}, [target]
    while left:
        for one in _called(left.pop()):
            if one in seen:
                continue
            seen.add(one)
            left.append(one)
            if one.__module__.startswith(KERNELS):
                found.add(one)
    return found


@cache
def _called(target: Any) -> tuple[Any, ...]:
    return tuple(_named(target))


def _named(target: Any) -> Iterator[Any]:
    """The functions and classes of the package that the code of a function, or of the methods of a class, names."""
    for function in _functions(target):
        names = _names(function.__code__)
        for value in (function.__globals__.get(name) for name in names):
            of_module = [vars(value).get(name) for name in names] if isinstance(value, ModuleType) else [value]
            for one in of_module:
                one = inspect.unwrap(one) if callable(one) else one
                if isinstance(one, FunctionType | type) and (one.__module__ or "").startswith(PACKAGE):
                    yield one


def _functions(target: Any) -> Iterator[FunctionType]:
    """A function, or the methods of a class, inherited ones too."""
    if not isinstance(target, type):
        yield target
        return
    for name in dir(target):
        method = inspect.getattr_static(target, name)
        method = getattr(method, "__func__", getattr(method, "fget", method))
        method = inspect.unwrap(method) if callable(method) else method
        if isinstance(method, FunctionType) and method.__module__.startswith(PACKAGE):
            yield method


def _names(code: CodeType) -> set[str]:
    """The names in a code object and in the functions inside it."""
    inner = (_names(one) for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*inner)

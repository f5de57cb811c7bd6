"""The programs of an equation whose implementation depends on the platform, and those that JAX derives from them.

`platforms.per_platform` binds a `Given` program. Derivatives, `vmap` and dead-code elimination make programs from it:
the forward pass with its residuals, the tangents, their transpose, a program that is mapped over an axis, and one with
fewer outputs. The home platform is that on which the equation is traced. Only there are residuals saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun


class Program:
    """The function of an equation: `on(platform)` is a function from flat arrays to a list of arrays.

    It is linear in its first `linear` arguments. Programs are compared by identity.
    """

    jaxpr: ClosedJaxpr | None = None
    linear = 0
    types: list[Any]

    def __init__(self, home: str):
        self.home, self.types = home, []

    def on(self, platform: str) -> Callable[..., list[Any]]:
        raise NotImplementedError

    def pull(self, platform: str) -> Callable[..., list[Any]]:
        """The transpose of a linear program: (other arguments, cotangents) -> cotangents of the linear arguments."""
        raise NotImplementedError

    def function(self, platform: str) -> Callable[..., list[Any]]:
        if platform == self.home and self.jaxpr is not None:
            return jaxpr_as_fun(self.jaxpr)
        return self.on(platform)


class Given(Program):
    """The program of the function that `per_platform` was called with."""

    def __init__(self, home: str, run: Callable[[str, Any], Any], tree):
        super().__init__(home)
        self.run, self.tree, self.result_tree = run, tree, None

    def on(self, platform: str):
        def function(*flat):
            results, self.result_tree = jax.tree.flatten(self.run(platform, jax.tree.unflatten(self.tree, flat)))
            return results

        return function


class Derived(Program):
    """A program that is derived from another one, with the same home platform."""

    def __init__(self, program: Program):
        self.program, self.home, self.types, self.linear = program, program.home, [], 0

    def of_some(self, platform: str, arguments: Sequence[Any], which: Sequence[int]):
        """Returns (a function of the differentiated arguments, their values).

        The function returns (floating-point outputs, all outputs).
        """

        def function(*some):
            full = list(arguments)
            for index, value in zip(which, some, strict=True):
                full[index] = value
            outputs = self.program.function(platform)(*full)
            return [outputs[index] for index in self.floating], outputs

        return function, [arguments[index] for index in which]

    @property
    def floating(self) -> list[int]:
        return [index for index, x in enumerate(self.program.types) if jnp.issubdtype(x.dtype, jnp.floating)]


class Forward(Derived):
    """The outputs, followed by the residuals of the home implementation for the gradient of the arguments `which`.

    On other platforms, the residuals are zeros. A residual that is an argument is not saved again (`sources`).
    """

    def __init__(self, program: Program, which: Sequence[int]):
        super().__init__(program)
        self.which, self.tree = which, None
        self.sources: list[int | None] = []

    def on(self, platform: str):
        def function(*arguments):
            if platform != self.home:
                saved = self.types[len(self.program.types) :]
                outputs = self.program.on(platform)(*arguments)
                return [*outputs, *(jnp.zeros(x.shape, x.dtype) for x in saved)]
            some, values = self.of_some(platform, arguments, self.which)
            _, pull, outputs = jax.vjp(some, *values, has_aux=True)
            leaves, self.tree = jax.tree.flatten(pull)
            given = {id(argument): index for index, argument in enumerate(arguments)}
            self.sources = [given.get(id(leaf)) for leaf in leaves]
            return [*outputs, *(leaf for leaf, source in zip(leaves, self.sources, strict=True) if source is None)]

        return function

    def pullback(self, arguments: Sequence[Any], saved: Sequence[Any]) -> Callable[..., Any]:
        """The function that `jax.vjp` returned on the home platform."""
        rest = iter(saved)
        leaves = [next(rest) if source is None else arguments[source] for source in self.sources]
        return jax.tree.unflatten(self.tree, leaves)


class Tangent(Derived):
    """The program (tangents of `which`, arguments, saved) -> tangents of the floating-point outputs."""

    def __init__(self, forward: Forward, arguments: int):
        super().__init__(forward.program)
        self.forward, self.which, self.arguments = forward, forward.which, arguments
        self.linear = len(forward.which)
        self.types = [self.program.types[index].to_tangent_aval() for index in self.floating]

    def split(self, rest: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Splits a flat list into (arguments, saved, cotangents)."""
        saved = self.arguments + len(self.forward.types) - len(self.program.types)
        return list(rest[: self.arguments]), list(rest[self.arguments : saved]), list(rest[saved:])

    def on(self, platform: str):
        def function(*given):
            arguments, _, _ = self.split(given[self.linear :])
            some, values = self.of_some(platform, arguments, self.which)
            return jax.jvp(some, values, list(given[: self.linear]), has_aux=True)[1]

        return function

    def pull(self, platform: str):
        def function(*given):
            arguments, saved, cotangents = self.split(given)
            if platform == self.home:
                return list(self.forward.pullback(arguments, saved)(cotangents))
            some, values = self.of_some(platform, arguments, self.which)
            return list(jax.vjp(some, *values, has_aux=True)[1](cotangents))

        return function


class Pull(Derived):
    """The transpose of a linear program."""

    def on(self, platform: str):
        return self.program.pull(platform)


class Batched(Derived):
    """A program mapped over one axis of some arguments. It is the first axis of every output."""

    def __init__(self, program: Program, axes: Sequence[int | None], size: int):
        super().__init__(program)
        self.axes, self.linear = tuple(axes), program.linear
        self.types = [x.update(shape=(size, *x.shape)) for x in program.types]

    def on(self, platform: str):
        return jax.vmap(self.program.function(platform), self.axes)

    def pull(self, platform: str):
        cotangents = (0,) * len(self.types)
        return jax.vmap(self.program.pull(platform), (*self.axes[self.linear :], *cotangents))


class Selected(Derived):
    """A program that returns a subset of the outputs of another one."""

    def __init__(self, program: Program, used: Sequence[bool]):
        super().__init__(program)
        self.used = tuple(used)

    def on(self, platform: str):
        return lambda *given: [x for x, use in zip(self.program.on(platform)(*given), self.used, strict=True) if use]

"""Functions whose implementation depends on the platform that a program is lowered for.

`per_platform` stages one equation. Its function is traced immediately for the home platform (the default backend). For
another platform, it is traced only when a program is lowered for that platform. A lowered program therefore contains
the operations of its platform and no branches, and a process that never lowers for a GPU neither imports nor traces the
GPU kernels. `jax.lax.platform_dependent` stages every branch instead, and its gradients keep the residuals of every
branch.

The equation composes with jit, vmap, scan, remat, shard_map and jax.export, and with derivatives of any order and mode
that the implementations support. On the home platform, the gradient uses the residuals that the forward pass of the
home implementation saves. On another platform, it recomputes the forward pass. To lower for another platform without
recomputation, make it the home platform: trace under `jax.sharding.use_abstract_mesh` with a mesh that names its device
(`abstract_device`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir, partial_eval

#: The platforms that a program can be lowered for, as JAX names them.
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def home_platform() -> str:
    """The platform of the abstract mesh's device if the mesh names one, else of the default backend."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    platform = jax.default_backend() if device is None else device.platform
    if platform != "gpu":
        return platform
    amd = jax.default_backend() == "gpu" and "rocm" in jax.devices()[0].client.platform_version.lower()
    return "rocm" if amd else "cuda"


def per_platform(run: Callable[[str, Any], Any], arguments: Any) -> Any:
    """Computes `run(platform, arguments)`, where `platform` is the platform that the program is lowered for.

    `arguments` is a pytree of arrays. `run` must return arrays of the same shapes and dtypes on every platform, and
    must not close over traced arrays.
    """
    flat, tree = jax.tree.flatten(arguments)
    given = _Given(run, tree)
    results = _bind(given, flat)
    return jax.tree.unflatten(given.result_tree, results)


class _Program:
    """The function of an equation: `on(platform)` is a function from flat arrays to a list of arrays.

    It is linear in its first `linear` arguments. Programs are compared by identity.
    """

    jaxpr: ClosedJaxpr | None = None
    linear = 0

    def __init__(self):
        self.home, self.types = home_platform(), []

    def on(self, platform: str) -> Callable[..., list[Any]]:
        raise NotImplementedError

    def pull(self, platform: str) -> Callable[..., list[Any]]:
        """The transpose of a linear program: (other arguments, cotangents) -> cotangents of the linear arguments."""
        raise NotImplementedError

    def function(self, platform: str) -> Callable[..., list[Any]]:
        if platform == self.home and self.jaxpr is not None:
            return jaxpr_as_fun(self.jaxpr)
        return self.on(platform)


class _Given(_Program):
    """The program of the function that `per_platform` was called with."""

    def __init__(self, run: Callable[[str, Any], Any], tree):
        super().__init__()
        self.run, self.tree, self.result_tree = run, tree, None

    def on(self, platform: str):
        def function(*flat):
            results, self.result_tree = jax.tree.flatten(self.run(platform, jax.tree.unflatten(self.tree, flat)))
            return results

        return function


class _Derived(_Program):
    """A program that is derived from another one, with the same home platform."""

    def __init__(self, program: _Program):
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


class _Forward(_Derived):
    """The outputs, followed by the residuals of the home implementation for the gradient of the arguments `which`.

    On other platforms, the residuals are zeros. A residual that is an argument is not saved again (`sources`).
    """

    def __init__(self, program: _Program, which: Sequence[int]):
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


class _Tangent(_Derived):
    """The program (tangents of `which`, arguments, saved) -> tangents of the floating-point outputs."""

    def __init__(self, forward: _Forward, arguments: int):
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


class _Pull(_Derived):
    """The transpose of a linear program."""

    def on(self, platform: str):
        return self.program.pull(platform)


class _Batched(_Derived):
    """A program mapped over one axis of some arguments. It is the first axis of every output."""

    def __init__(self, program: _Program, axes: Sequence[int | None], size: int):
        super().__init__(program)
        self.axes, self.linear = tuple(axes), program.linear
        self.types = [x.update(shape=(size, *x.shape)) for x in program.types]

    def on(self, platform: str):
        return jax.vmap(self.program.function(platform), self.axes)

    def pull(self, platform: str):
        cotangents = (0,) * len(self.types)
        return jax.vmap(self.program.pull(platform), (*self.axes[self.linear :], *cotangents))


class _Selected(_Derived):
    """A program that returns a subset of the outputs of another one."""

    def __init__(self, program: _Program, used: Sequence[bool]):
        super().__init__(program)
        self.used = tuple(used)

    def on(self, platform: str):
        return lambda *given: [x for x, use in zip(self.program.on(platform)(*given), self.used, strict=True) if use]


_equation = Primitive("per_platform")
_equation.multiple_results = True


def _bind(program: _Program, arguments: Sequence[Any]) -> list[Any]:
    """Binds a program. A linear program is traced only when it is lowered, because most are only transposed."""
    if not program.linear:
        traced = jax.make_jaxpr(program.on(program.home))(*arguments)
        program.jaxpr = _live(traced, [True] * len(traced.out_avals))  # FLOP counts exclude dead code
        program.types = traced.out_avals
    return _equation.bind(*arguments, program=program, jaxpr=program.jaxpr)


@_equation.def_impl
def _evaluate(*arguments, program: _Program, jaxpr):
    """Evaluation outside jit: operation by operation on the home platform, compiled for other platforms."""
    devices = {device for x in arguments if isinstance(x, jax.Array) for device in x.devices()}
    if all(device.platform == jax.default_backend() for device in devices):
        return program.function(program.home)(*arguments)
    return jax.jit(partial(_equation.bind, program=program, jaxpr=jaxpr))(*arguments)


@_equation.def_abstract_eval
def _types(*_, program: _Program, jaxpr):
    return program.types


def _lowered(platform: str | None, *arguments, program: _Program, jaxpr):
    return program.function(platform or program.home)(*arguments)


mlir.register_lowering(_equation, mlir.lower_fun(partial(_lowered, None)))
for _platform in PLATFORMS:
    mlir.register_lowering(_equation, mlir.lower_fun(partial(_lowered, _platform)), platform=_platform)


def _jvp(primals, tangents, *, program: _Program, jaxpr):
    which = [index for index, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    forward = _Forward(program, which)
    outputs = _bind(forward, primals)
    count = len(program.types)
    outputs, saved = outputs[:count], outputs[count:]
    tangent = _Tangent(forward, len(primals))
    slopes: list[Any] = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in outputs]
    found = _bind(tangent, [*(tangents[index] for index in which), *primals, *saved])
    for index, slope in zip(tangent.floating, found, strict=True):
        slopes[index] = slope
    return outputs, slopes


def _transpose(cotangents, *arguments, program: _Program, jaxpr):
    if all(isinstance(x, ad.Zero) for x in cotangents):
        return [None] * len(arguments)
    cotangents = [ad.instantiate_zeros(x) for x in cotangents]
    rest = arguments[program.linear :]
    return [*_bind(_Pull(program), [*rest, *cotangents]), *([None] * len(rest))]


def _batch(arguments, axes, *, program: _Program, jaxpr):
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    arguments, axes = list(arguments), [None if axis is None else axis for axis in axes]
    for index in range(program.linear):  # so that their cotangents are mapped too
        x, axis = arguments[index], axes[index]
        arguments[index] = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        axes[index] = 0
    outputs = _bind(_Batched(program, axes, size), arguments)
    return outputs, [0] * len(outputs)


def _without_dead_outputs(used: list[bool], equation):
    program = equation.params["program"]
    if not any(used):
        return [False] * len(equation.invars), None
    if all(used) or program.linear:
        return [True] * len(equation.invars), equation
    selected = _Selected(program, used)
    selected.jaxpr = _live(equation.params["jaxpr"], used)
    selected.types = selected.jaxpr.out_avals
    outputs = [x for x, use in zip(equation.outvars, used, strict=True) if use]
    return [True] * len(equation.invars), equation.replace(
        outvars=outputs, params={"program": selected, "jaxpr": selected.jaxpr}
    )


def _live(jaxpr: ClosedJaxpr, used: list[bool]) -> ClosedJaxpr:
    """The jaxpr without the operations that the used outputs do not need. It keeps all arguments."""
    live, _ = partial_eval.dce_jaxpr(jaxpr.jaxpr, used, instantiate=True)
    return ClosedJaxpr(live, jaxpr.consts)


ad.primitive_jvps[_equation] = _jvp
ad.primitive_transposes[_equation] = _transpose
batching.primitive_batchers[_equation] = _batch
#: JAX 0.10 calls a rule with (used, equation); JAX 0.12 passes one more argument between them.
partial_eval.dce_rules[_equation] = lambda used, *more: _without_dead_outputs(used, more[-1])

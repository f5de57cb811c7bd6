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
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from attention_research.kernels.platform_programs import Batched, Forward, Given, Program, Pull, Selected, Tangent

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
    given = Given(home_platform(), run, tree)
    results = _bind(given, flat)
    return jax.tree.unflatten(given.result_tree, results)


_equation = Primitive("per_platform")
_equation.multiple_results = True


def _bind(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """Binds a program. A linear program is traced only when it is lowered, because most are only transposed."""
    if not program.linear:
        traced = jax.make_jaxpr(program.on(program.home))(*arguments)
        program.jaxpr = _live(traced, [True] * len(traced.out_avals))  # FLOP counts exclude dead code
        program.types = traced.out_avals
    return _equation.bind(*arguments, program=program, jaxpr=program.jaxpr)


@_equation.def_impl
def _evaluate(*arguments, program: Program, jaxpr):
    """Evaluation outside jit: operation by operation on the home platform, compiled for other platforms."""
    devices = {device for x in arguments if isinstance(x, jax.Array) for device in x.devices()}
    if all(device.platform == jax.default_backend() for device in devices):
        return program.function(program.home)(*arguments)
    return jax.jit(partial(_equation.bind, program=program, jaxpr=jaxpr))(*arguments)


@_equation.def_abstract_eval
def _types(*_, program: Program, jaxpr):
    return program.types


def _lowered(platform: str | None, *arguments, program: Program, jaxpr):
    return program.function(platform or program.home)(*arguments)


mlir.register_lowering(_equation, mlir.lower_fun(partial(_lowered, None)))
for _platform in PLATFORMS:
    mlir.register_lowering(_equation, mlir.lower_fun(partial(_lowered, _platform)), platform=_platform)


def _jvp(primals, tangents, *, program: Program, jaxpr):
    which = [index for index, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    forward = Forward(program, which)
    outputs = _bind(forward, primals)
    count = len(program.types)
    outputs, saved = outputs[:count], outputs[count:]
    tangent = Tangent(forward, len(primals))
    slopes: list[Any] = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in outputs]
    found = _bind(tangent, [*(tangents[index] for index in which), *primals, *saved])
    for index, slope in zip(tangent.floating, found, strict=True):
        slopes[index] = slope
    return outputs, slopes


def _transpose(cotangents, *arguments, program: Program, jaxpr):
    if all(isinstance(x, ad.Zero) for x in cotangents):
        return [None] * len(arguments)
    cotangents = [ad.instantiate_zeros(x) for x in cotangents]
    rest = arguments[program.linear :]
    return [*_bind(Pull(program), [*rest, *cotangents]), *([None] * len(rest))]


def _batch(arguments, axes, *, program: Program, jaxpr):
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    arguments, axes = list(arguments), [None if axis is None else axis for axis in axes]
    for index in range(program.linear):  # so that their cotangents are mapped too
        x, axis = arguments[index], axes[index]
        arguments[index] = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        axes[index] = 0
    outputs = _bind(Batched(program, axes, size), arguments)
    return outputs, [0] * len(outputs)


def _without_dead_outputs(used: list[bool], equation):
    program = equation.params["program"]
    if not any(used):
        return [False] * len(equation.invars), None
    if all(used) or program.linear:
        return [True] * len(equation.invars), equation
    selected = Selected(program, used)
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

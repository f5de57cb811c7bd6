"""Counts the floating point operations of a program by walking over its jaxpr. Dead code is not counted.

XLA's `cost_analysis` counts the body of a loop once. This walk multiplies it by the trip count. The count of matrix
products and convolutions is exact, with 2 operations for each multiply-add.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Jaxpr, Literal

from attention_research.accounting import programs

# Primitives that move or rename values and compute nothing.
MOVES = frozenset(
    "all_gather all_gather_invariant all_to_all axis_index bitcast_convert_type broadcast_in_dim broadcast_to "
    "concatenate convert_element_type copy copy_p create_token debug_callback debug_print device_put dynamic_slice "
    "dynamic_update_slice empty empty2 expand_dims gather get iota layout_constraint mesh_cast name num_programs "
    "optimization_barrier pad pbroadcast pcast ppermute program_id pvary ragged_all_to_all random_unwrap random_wrap "
    "reduce_precision reshape reshard rev scatter sharding_constraint slice split squeeze stop_gradient swap "
    "transpose".split()
)
# Primitives with one operation for each input element, not for each output element.
REDUCTIONS = frozenset(
    "approx_top_k argmax argmin cumlogsumexp cummax cummin cumprod cumsum pmax pmin psum psum2 psum_invariant reduce "
    "reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_scatter reduce_sum reduce_xor sort top_k".split()
)
# Primitives whose arithmetic is not in the program. They raise an error: a count without them would be too low.
OPAQUE = frozenset(
    "cholesky cudnn_fusion custom_call eig eigh ffi_call geqrf hessenberg householder_product io_callback lu lu_solve "
    "ormqr pure_callback qr ragged_dot ragged_dot_general scaled_matmul scaled_matmul_wrapper schur svd "
    "tridiagonal tridiagonal_solve".split()
)
OPAQUE_PREFIX = "dot_product_attention_"  # cuDNN's


class Flops(NamedTuple):
    """Floating point operations.

    `matmul` counts matrix products and convolutions exactly, 2 for each multiply-add. `other` is an estimate for all
    else, about 1 for each element.
    """

    matmul: int
    other: int

    @property
    def total(self) -> int:
        return self.matmul + self.other

    def __add__(self, more: "Flops") -> "Flops":  # type: ignore[override]  # adds counts; tuples concatenate
        return Flops(self.matmul + more.matmul, self.other + more.other)

    def __mul__(self, times: int) -> "Flops":  # type: ignore[override]  # multiplies counts; tuples repeat
        return Flops(self.matmul * times, self.other * times)


def count_flops(function: Callable[..., Any], *arguments: Any, trips: int | None = None) -> Flops:
    """Counts one call of `function`. Only shapes and dtypes of the arguments are read; nothing is allocated.

    The cost of a train step is ``count_flops(train_step, state, batch).matmul``. It includes the forward and the
    backward pass as traced, with rematerialised products counted again. Softmaxes, norms and the elementwise updates of
    the optimizer are in `other`; matrix products of the optimizer, as in Muon, are in `matmul`.

    - Only operations that reach an output count: attention weights that the caller drops cost nothing.
    - `scan` (also `lax.map`, and `fori_loop` with static bounds) counts its body times its length. `while` counts its
      body times its trip count if the program states it (a counter with constant start, end and step), else times
      `trips`. Without `trips`, a loop with matrix products raises ValueError and any other loop counts once.
    - `cond` counts its most expensive branch. `shard_map` and `pmap` count the body times the number of devices, which
      gives the count of the whole mesh. A Pallas kernel counts its own cost estimate. Without one, it counts its body
      times its grid, including the blocks that it skips.
    - A convolution counts its real multiply-adds, as XLA does. Those with padding, or with the holes of a dilated
      input, do not count, so that each gradient costs as much as the forward pass. (Published counts often include the
      padding.)
    - A triangular system of n equations counts n for each element of its solution: n / 2 multiply-adds on average.
    - `other` counts 1 for each output element of an elementwise operation, transcendental or not; 1 for each input
      element of a reduction, a cumulative sum or a sort; 1 for each update of a scatter-add; 5 n log2 n for a Fourier
      transform; and 0 for moving data (reshape, gather, conversion).

    Raises NotImplementedError for a primitive whose arithmetic is hidden (custom kernels, callbacks, factorizations).

    >>> count_flops(jnp.dot, jnp.ones((2, 3)), jnp.ones((3, 4))).matmul  # 2 * 2 * 3 * 4
    48
    """
    return _count(programs.trace(function, *arguments).jaxpr, trips)


def _count(jaxpr: Jaxpr, trips: int | None) -> Flops:
    total = Flops(0, 0)
    for equation in jaxpr.eqns:
        total += _equation(equation, trips)
    return total


def _equation(equation: Any, trips: int | None) -> Flops:
    name = equation.primitive.name
    if name == "dot_general":
        return Flops(_dot(equation), 0)
    if name == "conv_general_dilated":
        return Flops(_convolution(equation), 0)
    if name == "triangular_solve":
        return Flops(_size(equation.outvars[0]) * equation.invars[0].aval.shape[-1], 0)
    if name == "scan":
        return _count(programs.opened(equation.params["jaxpr"]), trips) * equation.params["length"]
    if name == "while":
        return _while(equation, trips)
    if name == "cond":
        branches = [_count(programs.opened(branch), trips) for branch in equation.params["branches"]]
        return Flops(*(max(counts) for counts in zip(*branches, strict=True)))
    if name == "pallas_call":
        estimate = equation.params.get("cost_estimate")
        if estimate is not None:
            return Flops(estimate.flops, estimate.transcendentals)
        return _count(programs.opened(equation.params["jaxpr"]), trips) * math.prod(
            equation.params["grid_mapping"].grid
        )
    if name == "shard_map":
        return _count(programs.opened(equation.params["jaxpr"]), trips) * programs.shards(equation)
    if name in OPAQUE or name.startswith(OPAQUE_PREFIX):
        raise NotImplementedError(f"{name}: its floating point operations cannot be read from the program")
    if name in MOVES:
        return Flops(0, 0)
    if name in REDUCTIONS:
        return Flops(0, sum(map(_size, equation.invars)))
    if name == "fft":
        lengths = math.prod(equation.params["fft_lengths"])
        return Flops(0, round(5 * max(map(_size, (*equation.invars, *equation.outvars))) * math.log2(lengths)))
    if name.startswith(("reduce_window", "select_and_")):
        return Flops(0, max(map(_size, equation.outvars)) * math.prod(equation.params.get("window_dimensions", (1,))))
    if name.startswith("scatter"):
        return Flops(0, _size(equation.invars[2]))
    inner = programs.inner_programs(equation)
    if inner:
        return sum((_count(programs.without_dead_code(program), trips) for program in inner), Flops(0, 0))
    return Flops(0, max(map(_size, equation.outvars), default=0))


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * _size(equation.outvars[0]) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> int:
    params, (left, right) = equation.params, (v.aval.shape for v in equation.invars)
    output = equation.outvars[0].aval.shape
    numbers = params["dimension_numbers"]
    pairs = 1  # (output position, kernel tap) pairs that read an input element
    for n, (i, k, o) in enumerate(zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)):
        spread = params["lhs_dilation"][n]
        place = np.arange(output[o])[:, None] * params["window_strides"][n] - params["padding"][n][0]
        place = place + np.arange(right[k])[None, :] * params["rhs_dilation"][n]
        pairs *= int(((place >= 0) & (place % spread == 0) & (place // spread < left[i])).sum())
    batch, features = (output[axis] for axis in numbers.out_spec[:2])
    return 2 * pairs * batch * features * right[numbers.rhs_spec[1]]


def _while(equation: Any, trips: int | None) -> Flops:
    once = Flops(0, 0)
    for part in ("cond_jaxpr", "body_jaxpr"):
        once += _count(programs.without_dead_code(equation.params[part]), trips)
    times = trip_count(equation)
    times = trips if times is None else times
    if times is None and once.matmul:
        raise ValueError("a while loop with matrix products: how often it runs is not in the program; pass trips=")
    return once * (1 if times is None else times)


def trip_count(equation: Any) -> int | None:
    """The number of iterations of ``while i < n`` with constant n, start and step of i; None for other loops."""
    condition, body = (programs.opened(equation.params[part]) for part in ("cond_jaxpr", "body_jaxpr"))
    condition_constants, body_constants = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    first = equation.invars[condition_constants + body_constants :]

    def literal(value: Any) -> int | None:
        whole = isinstance(value, Literal) and np.ndim(value.val) == 0 and np.asarray(value.val).dtype.kind in "iu"
        return int(value.val) if whole else None

    def carried(variable: Any, variables: list[Any], constants: int) -> int | None:
        places = [n for n, v in enumerate(variables[constants:]) if v is variable]
        return places[0] if places and not isinstance(variable, Literal) else None

    tests = [e for e in condition.eqns if e.outvars and e.outvars[0] is condition.outvars[0]]
    if not tests or tests[0].primitive.name != "lt":
        return None
    counter, bound = tests[0].invars
    place = carried(counter, condition.invars, condition_constants)
    if place is None:
        return None
    steps = [e for e in body.eqns if e.outvars and e.outvars[0] is body.outvars[place] and e.primitive.name == "add"]
    if not steps or steps[0].invars[0] is not body.invars[body_constants + place]:
        return None
    step, start, end = literal(steps[0].invars[1]), literal(first[place]), literal(bound)
    where = carried(bound, condition.invars, condition_constants)
    if where is not None and body.outvars[where] is body.invars[body_constants + where]:  # carried along unchanged
        end = literal(first[where])
    for constant, value in zip(condition.invars[:condition_constants], equation.invars, strict=False):
        end = literal(value) if constant is bound else end
    if step is None or start is None or end is None or step < 1:
        return None
    return max(0, -(-(end - start) // step))

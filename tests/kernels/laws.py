"""The laws that every mechanism of the catalogue must satisfy. `applicable(family)` returns those that it claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax.extend.core import Jaxpr, Literal, jaxprs_in_params

from attention_research.accounting.programs import without_dead_code
from tests.catalogue import Mechanism, mechanisms
from tests.kernels import edge_laws
from tests.kernels.rounding import rounded

#: Mechanisms with hand-written or stopped gradients. Their second derivatives are tested in the fast tier.
BY_HAND = ("attend", "blockwise", "gumbel_straight_through", "hard_sampled", "performer", "reversible_layers")

#: The slowest laws.
SLOW = {"transforms", "bfloat16", "emptied", "integers", "permutations", "extremes", "scales"}


def applicable(family: str) -> list:
    """Parameters (mechanism, law) of a family.

    If a file has several mechanisms (modes, sharings), laws that hold or fail for all of them alike are long tests for
    all but the first. The slowest laws are in the fast tier for the first mechanism of a family and `BY_HAND` only, and
    slow for the others. Higher derivatives of the others are those that JAX makes, and they are long tests.
    """
    found, files = [], set()
    for mechanism in mechanisms(family):
        claimed = {
            "transforms": transforms,
            "gradients": gradients if mechanism.floats() else None,
            "bfloat16": bfloat16 if mechanism.floats() and not mechanism.no_bfloat16 else None,
            "shapes": shapes,
            "permutations": permutations if mechanism.permutable else None,
            "causality": causality if mechanism.causal else None,
            "padding": padding if mechanism.keeps("padding") else None,
            "empty": empty if mechanism.keeps("empty") else None,
            "cached": cached if mechanism.cached else None,
            "extremes": edge_laws.extremes if mechanism.floats() else None,
            "integers": edge_laws.integers if "int" in map(mechanism.kind, mechanism.inputs) else None,
            "emptied": edge_laws.emptied,
            "scales": edge_laws.scales if mechanism.scaled else None,
            "derivatives": edge_laws.derivatives if mechanism.floats() else None,
        }
        another = {"transforms", "bfloat16", "shapes", "permutations", "emptied", "causality"}
        long = another if mechanism.file in files else set()
        by_hand = mechanism.name in BY_HAND
        slow = SLOW if found and not by_hand else set()
        if not by_hand or mechanism.name == "blockwise":
            long = long | {"derivatives"}
        files.add(mechanism.file)
        for name, law in claimed.items():
            marks = [pytest.mark.long] if name in long else [pytest.mark.slow] if name in slow else []
            found += [pytest.param(mechanism, law, id=f"{mechanism.name}-{name}", marks=marks)] if law else []
    return found


def close(got, want, tolerance: float = 2e-5) -> None:
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


def stacked(one, other):
    """Both arrays stacked. Random keys are stacked by JAX, other arrays by NumPy."""
    return (np if isinstance(one, np.ndarray) else jnp).stack([one, other])


def weigh(outputs) -> tuple[np.ndarray, ...]:
    """Fixed random cotangents for the outputs."""
    random = np.random.default_rng(1)
    return tuple(random.standard_normal(one.shape).astype(one.dtype) for one in outputs)


def of_floats(mechanism: Mechanism, inputs: dict):
    """(function from the float inputs in order to the float outputs, the inputs' values). Other inputs are fixed."""
    names = mechanism.floats()
    fixed = {name: value for name, value in inputs.items() if name not in names}
    call = lambda *floats: floating(mechanism.call({**fixed, **dict(zip(names, floats, strict=True))}))
    return call, [inputs[n] for n in names]


def floating(outputs) -> tuple:
    """The outputs that have a gradient, which positions and masks do not."""
    return tuple(x for x in outputs if jnp.issubdtype(x.dtype, jnp.floating))


class Programs(NamedTuple):
    """A compiled mechanism: call(inputs) -> outputs; pull(inputs, cotangents) -> (float outputs, gradients)."""

    call: Callable[[dict], tuple]
    pull: Callable[[dict, tuple], tuple[tuple, tuple]]


_COMPILED: dict[str, Programs] = {}


def programs(mechanism: Mechanism) -> Programs:
    """The compiled programs of a mechanism, shared by all laws."""

    def pull(inputs, cotangents):
        function, floats = of_floats(mechanism, inputs)
        outputs, back = jax.vjp(function, *floats)
        return outputs, back(tuple(w.astype(x.dtype) for w, x in zip(cotangents, outputs, strict=True)))

    return _COMPILED.setdefault(mechanism.name, Programs(jax.jit(mechanism.call), jax.jit(pull)))


def transforms(mechanism: Mechanism) -> None:
    """jit, vmap, scan, checkpoint and grad do not change the results. The outputs have the catalogue's axes."""
    one, other = mechanism.arrays(), mechanism.arrays(seed=1)
    call, pull = programs(mechanism)
    outputs = call(one)
    assert [x.shape for x in outputs] == [tuple(map(mechanism.size, axes.split())) for axes in mechanism.outputs]
    assert all(np.isfinite(np.asarray(x)).all() for x in outputs)
    cotangents = weigh(floating(outputs))

    @jax.jit
    def transformed(both, first):
        over = lambda _, x: (None, mechanism.call(x))
        again = None
        if mechanism.floats():
            function, floats = of_floats(mechanism, first)
            again = jax.vjp(jax.checkpoint(function), *floats)[1](cotangents)
        return jax.vmap(mechanism.call)(both), jax.lax.scan(over, None, both)[1], again

    mapped, scanned, again = transformed(jax.tree.map(stacked, one, other), one)
    looped = [np.stack([a, b]) for a, b in zip(outputs, call(other), strict=True)]
    close(list(mapped), looped)
    close(list(scanned), looped)
    if mechanism.floats():
        close(again, pull(one, cotangents)[1])


def compared_maxima(jaxpr: Jaxpr) -> list[str]:
    """The comparisons of values with their own maximum, as the gradient of `jnp.max` makes them.

    XLA may recompute the values for the comparison. Then no value may equal the maximum, and the gradient is 0 / 0.
    """
    found, maxima = [], {}  # the maximum, possibly reshaped -> the values
    for equation in jaxpr.eqns:
        name, inputs = equation.primitive.name, [x for x in equation.invars if not isinstance(x, Literal)]
        if name in ("reduce_max", "reduce_min"):
            maxima[equation.outvars[0]] = inputs[0]
        elif (
            name in ("broadcast_in_dim", "reshape", "squeeze", "convert_element_type")
            and inputs[:1]
            and (inputs[0] in maxima)
        ):
            maxima[equation.outvars[0]] = maxima[inputs[0]]
        elif name == "eq" and any(maxima.get(one) is other for one in inputs for other in inputs):
            found.append(str(equation))
        for inner in jaxprs_in_params(equation.params):
            found += compared_maxima(inner)
    return found


def gradients(mechanism: Mechanism) -> None:
    """Every float input has a gradient equal to finite differences in float64. The gradient of `flat` inputs is 0."""
    names, step = mechanism.floats(), 1e-6
    with jax.enable_x64(True):
        inputs = {n: np.asarray(x, np.float64) if n in names else x for n, x in mechanism.arrays().items()}
        pull = programs(mechanism).pull
        cotangents = weigh(floating(jax.eval_shape(mechanism.call, inputs)))
        found = dict(zip(names, pull(inputs, cotangents)[1], strict=True))
        used = without_dead_code(pull.trace(inputs, cotangents).jaxpr)
        assert compared_maxima(used) == [], "use kernels.largest"
        for name, gradient in found.items():
            gradient = np.asarray(gradient)
            assert np.isfinite(gradient).all(), name
            assert np.any(gradient) != (name in mechanism.flat), f"{name}: gradient {gradient}"
            if mechanism.no_finite_differences:
                continue
            direction = np.random.default_rng(2).standard_normal(np.shape(inputs[name]))
            above, below = (pull({**inputs, name: inputs[name] + s * direction}, cotangents)[0] for s in (step, -step))
            difference = [(np.asarray(a) - np.asarray(b)) / (2 * step) for a, b in zip(above, below, strict=True)]
            along = sum(map(np.vdot, cotangents, difference))
            np.testing.assert_allclose(np.vdot(gradient, direction), along, rtol=1e-5, atol=1e-6, err_msg=name)


def bfloat16(mechanism: Mechanism) -> None:
    """|bfloat16 - float32| <= 2 |every operation rounded - float32| (3 for gradients), plus rounding of the result."""
    inputs, floats = mechanism.arrays(), mechanism.floats()
    narrow = {name: x.astype(jnp.bfloat16) if name in floats else x for name, x in inputs.items()}
    exact = {name: x.astype(jnp.float32) if name in floats else x for name, x in narrow.items()}
    pull = programs(mechanism).pull
    cotangents = weigh(floating(jax.eval_shape(mechanism.call, exact)))
    cotangents = tuple(x.astype(jnp.bfloat16).astype(np.float32) for x in cotangents)
    got, want, naive = pull(narrow, cotangents), pull(exact, cotangents), jax.jit(rounded(pull))(exact, cotangents)
    for times, one, other, low in zip((2, 3), got, want, naive, strict=True):
        for x, y, z in zip(one, other, low, strict=True):
            x, y, z = (np.asarray(value, np.float32) for value in (x, y, z))
            allowed = times * np.abs(z - y).max() + 2.0**-8 * np.abs(y).max()
            assert np.abs(x - y).max() <= allowed


def shapes(mechanism: Mechanism) -> None:
    """A wrong rank, or an axis on which two arguments disagree, raises an error that names the argument (and axis)."""
    inputs = mechanism.arrays()
    arrays = [name for name in inputs if mechanism.kind(name) != "key"]
    jaxtyping.config.update("jaxtyping_disable", True)  # to see the kernels' own errors, as users do
    try:
        for name in arrays:
            refused(mechanism, {**inputs, name: inputs[name][None]}, name)
            if inputs[name].ndim:
                refused(mechanism, {**inputs, name: np.asarray(inputs[name][0])}, name)
            for number, axis in enumerate(mechanism.axes(name)):
                users = [other for other in arrays if axis in mechanism.axes(other)]
                alone = len(users) == 1 and mechanism.axes(name).count(axis) == 1
                if axis != "1" and not alone and (name, axis) not in mechanism.loose:
                    longer = np.concatenate([inputs[name]] * 2, axis=number)
                    refused(mechanism, {**inputs, name: longer}, *users)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def refused(mechanism: Mechanism, inputs: dict, *names: str) -> None:
    with pytest.raises(ValueError, match=rf"^({'|'.join(names)})\b.*(ax[ei]s|expected)"):
        jax.eval_shape(mechanism.call, inputs)


def permutations(mechanism: Mechanism) -> None:
    """Permuting the inputs along an axis permutes the outputs that have this axis and does not change the others."""
    inputs, call = mechanism.arrays(), programs(mechanism).call
    outputs = call(inputs)
    for axis in mechanism.permutable:
        order = np.random.default_rng(3).permutation(mechanism.size(axis))

        def permute(x, axes, axis=axis, order=order):
            for number, letter in enumerate(axes):
                x = np.take(np.asarray(x), order, axis=number) if letter == axis else x
            return x

        moved = call({n: permute(x, mechanism.axes(n)) for n, x in inputs.items()})
        close(moved, [permute(x, axes.split()) for x, axes in zip(outputs, mechanism.outputs, strict=True)])


def causality(mechanism: Mechanism) -> None:
    """The gradient with respect to the future is exactly 0; with respect to the present and past it is not.

    Outputs without the axis, such as the state after the last position, are left out.
    """
    inputs, pull = mechanism.arrays(), programs(mechanism).pull
    weights = weigh(jax.eval_shape(mechanism.call, inputs))
    length = mechanism.size(mechanism.causal)
    for now in (0, length // 2, length - 2):
        cotangents = []
        for weight, axes in zip(weights, mechanism.outputs, strict=True):
            if mechanism.causal not in axes.split():
                cotangents.append(np.zeros_like(weight))
                continue
            here = np.arange(length) == now
            shape = [-1 if axis == mechanism.causal else 1 for axis in axes.split()]
            cotangents.append(weight * here.reshape(shape).astype(weight.dtype))
        past = False
        for name, gradient in zip(mechanism.floats(), pull(inputs, tuple(cotangents))[1], strict=True):
            for number, axis in enumerate(mechanism.axes(name)):
                if axis == mechanism.causal:
                    by_time = np.moveaxis(np.asarray(gradient), number, 0)
                    assert not np.any(by_time[now + 1 :]), f"{name}: position {now} depends on later positions"
                    past |= bool(np.any(by_time[: now + 1]))
        assert past


def padding(mechanism: Mechanism) -> None:
    """Values at padding positions do not change outputs at real positions, and get no gradient from them."""
    inputs = mechanism.arrays()
    mask_axes = mechanism.axes("mask")
    axis, mask = mask_axes[-1], np.asarray(inputs["mask"])
    assert not mask.all()

    def spread(axes):
        """The mask as an array that broadcasts against `axes`, True everywhere if the array lacks the mask's axes."""
        kept = mask
        for number in reversed(range(len(mask_axes))):
            if mask_axes[number] not in axes and mask_axes[number] != "1":
                kept = kept.any(axis=number, keepdims=True)
        order = {letter: number for number, letter in enumerate(mask_axes) if letter != "1"}
        shape = [mask.shape[order[letter]] if letter in order else 1 for letter in axes]
        kept = kept.reshape([size for size in kept.shape if size != 1] or [1])
        return np.broadcast_to(kept.reshape(shape), shape)

    def spoiled(name):
        if name == "mask" or mechanism.kind(name) != "float" or axis not in mechanism.axes(name):
            return inputs[name]
        return np.where(spread(mechanism.axes(name)), inputs[name], np.float32(1e4))

    call = programs(mechanism).call
    before, after = call(inputs), call({name: spoiled(name) for name in inputs})
    for one, other, axes in zip(before, after, mechanism.outputs, strict=True):
        real = spread(axes.split()) if axis in axes.split() else np.ones([1] * one.ndim, bool)
        close(np.where(real, other, 0), np.where(real, one, 0), 1e-6)


def empty(mechanism: Mechanism) -> None:
    """A row without visible keys gives 0 and gradient 0, never NaN."""
    rows, inputs, pull = mechanism.empty, mechanism.arrays(), programs(mechanism).pull
    inputs["mask"][rows] = False
    cotangents = []
    for weight in weigh(floating(jax.eval_shape(mechanism.call, inputs))):
        cotangents.append(np.zeros_like(weight))
        cotangents[-1][rows] = weight[rows]
    outputs, gradients = jax.tree.map(np.asarray, pull(inputs, tuple(cotangents)))
    assert all(not np.any(x[rows]) for x in outputs)
    assert any(np.any(x) for x in outputs)
    assert all(not np.any(x) for x in gradients)


def cached(mechanism: Mechanism) -> None:
    """Computing one position at a time with a cache equals computing the whole sequence at once."""
    inputs = mechanism.arrays()
    stepped = jax.jit(lambda x: tuple(jax.tree.leaves(mechanism.cached(**x, **mechanism.settings))))
    close(stepped(inputs), programs(mechanism).call(inputs))

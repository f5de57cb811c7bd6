"""The laws that every mechanism of the catalogue is held to: `applicable(family)` gives those that it claims."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.catalogue import Mechanism, mechanisms
from tests.kernels.rounding import rounded


def applicable(family: str) -> list:
    """Parameters (mechanism, law) of a family."""
    found = []
    for mechanism in mechanisms(family):
        claimed = {
            "transforms": transforms,
            "gradients": gradients if mechanism.floats() else None,
            "bfloat16": bfloat16 if mechanism.floats() and not mechanism.no_bfloat16 else None,
            "shapes": shapes,
            "permutations": permutations if mechanism.permutable else None,
            "causality": causality if mechanism.causal else None,
            "padding": padding if mechanism.padding else None,
            "empty": empty if mechanism.empty else None,
            "cached": cached if mechanism.cached else None,
        }
        found += [pytest.param(mechanism, law, id=f"{mechanism.name}-{name}") for name, law in claimed.items() if law]
    return found


def close(got, want, tolerance: float = 2e-5) -> None:
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


def weigh(mechanism: Mechanism, outputs) -> list[np.ndarray]:
    """Fixed random cotangents for the outputs."""
    random = np.random.default_rng(1)
    return [jnp.asarray(random.standard_normal(one.shape), one.dtype) for one in outputs]


def of_floats(mechanism: Mechanism, inputs: dict):
    """(function of the float inputs in order to the float outputs, their values); the other inputs are fixed."""
    names = mechanism.floats()
    fixed = {name: value for name, value in inputs.items() if name not in names}
    call = lambda *floats: floating(mechanism.call({**fixed, **dict(zip(names, floats, strict=True))}))
    return call, [inputs[n] for n in names]


def floating(outputs) -> tuple:
    """Those outputs that have a gradient; positions and masks have none."""
    return tuple(x for x in outputs if jnp.issubdtype(x.dtype, jnp.floating))


def transforms(mechanism: Mechanism) -> None:
    """jit, vmap, scan, checkpoint and grad change nothing; the outputs have the axes that the catalogue gives."""
    one, other = mechanism.arrays(), mechanism.arrays(seed=1)
    outputs = mechanism.call(one)
    assert [x.shape for x in outputs] == [tuple(map(mechanism.size, axes.split())) for axes in mechanism.outputs]
    assert all(np.isfinite(x).all() for x in outputs)

    @jax.jit
    def batched(inputs):
        over = lambda _, x: (None, mechanism.call(x))
        return jax.vmap(mechanism.call)(inputs), jax.lax.scan(over, None, inputs)[1]

    both = jax.jit(lambda x, y: jax.tree.map(lambda a, b: jnp.stack([a, b]), mechanism.call(x), mechanism.call(y)))
    both = both(one, other)
    close([x[0] for x in both], outputs)
    for result in batched(jax.tree.map(lambda a, b: jnp.stack([a, b]), one, other)):
        close(result, both)
    if mechanism.floats():
        function, floats = of_floats(mechanism, one)
        pull = lambda f, values: jax.vjp(f, *values)[1](tuple(weigh(mechanism, floating(outputs))))
        plain, again = jax.jit(lambda x: (pull(function, x), pull(jax.checkpoint(function), x)))(floats)
        close(again, plain)


def gradients(mechanism: Mechanism) -> None:
    """Every float input has a gradient, that of finite differences in float64; `flat` ones have none at all."""
    with jax.enable_x64(True):
        inputs = {n: x.astype(jnp.float64) if n in mechanism.floats() else x for n, x in mechanism.arrays().items()}
        function, floats = of_floats(mechanism, inputs)
        function = jax.jit(function)
        outputs, pull = jax.vjp(function, *floats)
        found = pull(tuple(weigh(mechanism, outputs)))
        for name, gradient in zip(mechanism.floats(), found, strict=True):
            assert np.isfinite(gradient).all(), name
            assert np.any(gradient) != (name in mechanism.flat), f"{name}: gradient {gradient}"
        if not mechanism.no_finite_differences:
            check_grads(function, floats, order=1, modes=["rev"], atol=1e-6, rtol=1e-5)


def bfloat16(mechanism: Mechanism) -> None:
    """|bfloat16 - float32| <= 2 |every operation rounded - float32|, 3 for gradients, but for rounding the result."""
    inputs = mechanism.arrays()
    function, floats = of_floats(mechanism, inputs)
    narrow = [x.astype(jnp.bfloat16) for x in floats]
    exact = [x.astype(jnp.float32) for x in narrow]
    cotangents = weigh(mechanism, jax.eval_shape(function, *exact))
    cotangents = [x.astype(jnp.bfloat16).astype(jnp.float32) for x in cotangents]

    def both(*values):
        outputs, pull = jax.vjp(function, *values)
        return outputs, pull(tuple(w.astype(x.dtype) for w, x in zip(cotangents, outputs, strict=True)))

    got, want, naive = (jax.jit(call)(*x) for call, x in ((both, narrow), (both, exact), (rounded(both), exact)))
    for times, one, other, low in zip((2, 3), got, want, naive, strict=True):
        for x, y, z in zip(one, other, low, strict=True):
            allowed = times * np.abs(z - y).max() + 2.0**-8 * np.abs(y).max()
            assert np.abs(np.asarray(x, np.float32) - y).max() <= allowed


def shapes(mechanism: Mechanism) -> None:
    """A rank too low or too high, or an axis that two arguments disagree on, raises naming the argument (and axis)."""
    inputs = mechanism.arrays()
    arrays = [name for name in inputs if mechanism.kind(name) != "key"]
    jaxtyping.config.update("jaxtyping_disable", True)  # the kernels' own errors, as users see them
    try:
        for name in arrays:
            refused(mechanism, {**inputs, name: inputs[name][None]}, name)
            if inputs[name].ndim:
                refused(mechanism, {**inputs, name: inputs[name][0]}, name)
            for number, axis in enumerate(mechanism.axes(name)):
                users = [other for other in arrays if axis in mechanism.axes(other)]
                alone = len(users) == 1 and mechanism.axes(name).count(axis) == 1
                if axis != "1" and not alone and (name, axis) not in mechanism.loose:
                    longer = jnp.concatenate([inputs[name]] * 2, axis=number)
                    refused(mechanism, {**inputs, name: longer}, *users)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def refused(mechanism: Mechanism, inputs: dict, *names: str) -> None:
    with pytest.raises(ValueError, match=rf"^({'|'.join(names)})\b.*(ax[ei]s|expected)"):
        jax.eval_shape(mechanism.call, inputs)


def permutations(mechanism: Mechanism) -> None:
    """Inputs permuted along an axis permute the outputs that have it and leave the others."""
    inputs = mechanism.arrays()
    call = jax.jit(mechanism.call)
    outputs = call(inputs)
    for axis in mechanism.permutable:
        order = np.random.default_rng(3).permutation(mechanism.size(axis))

        def permute(x, axes, axis=axis, order=order):
            for number, letter in enumerate(axes):
                x = jnp.take(x, order, axis=number) if letter == axis else x
            return x

        moved = call({n: permute(x, mechanism.axes(n)) for n, x in inputs.items()})
        close(moved, [permute(x, axes.split()) for x, axes in zip(outputs, mechanism.outputs, strict=True)])


def causality(mechanism: Mechanism) -> None:
    """No gradient from the future, exactly; some from the present or the past."""
    inputs = mechanism.arrays()
    function, floats = of_floats(mechanism, inputs)
    outputs, pull = jax.vjp(jax.jit(function), *floats)
    length = mechanism.size(mechanism.causal)
    for now in (0, length // 2, length - 2):
        cotangents = []
        for x, axes in zip(outputs, mechanism.outputs, strict=True):
            number = axes.split().index(mechanism.causal)
            here = np.arange(length) == now
            cotangents.append(
                jnp.ones_like(x) * here.reshape([-1 if n == number else 1 for n in range(x.ndim)]).astype(x.dtype)
            )
        past = False
        cotangents = [c * w for c, w in zip(cotangents, weigh(mechanism, outputs), strict=True)]
        for name, gradient in zip(mechanism.floats(), pull(tuple(cotangents)), strict=True):
            for number, axis in enumerate(mechanism.axes(name)):
                if axis == mechanism.causal:
                    by_time = np.moveaxis(np.asarray(gradient), number, 0)
                    assert not np.any(by_time[now + 1 :]), f"{name}: position {now} sees what comes after"
                    past |= bool(np.any(by_time[: now + 1]))
        assert past


def padding(mechanism: Mechanism) -> None:
    """What stands at padding changes no output at a real position, and gets no gradient from there."""
    mask_name, axis = mechanism.padding
    inputs = mechanism.arrays()
    mask_axes = mechanism.axes(mask_name)
    mask = np.asarray(inputs[mask_name])
    assert not mask.all()

    def spread(axes):
        """The mask as an array that broadcasts against `axes`; real where the array lacks the mask's axes."""
        kept = mask
        for number in reversed(range(len(mask_axes))):
            if mask_axes[number] not in axes and mask_axes[number] != "1":
                kept = kept.any(axis=number, keepdims=True)
        order = {letter: number for number, letter in enumerate(mask_axes) if letter != "1"}
        shape = [mask.shape[order[letter]] if letter in order else 1 for letter in axes]
        kept = kept.reshape([size for size in kept.shape if size != 1] or [1])
        return np.broadcast_to(kept.reshape(shape), shape)

    def spoiled(name):
        if name == mask_name or mechanism.kind(name) != "float" or axis not in mechanism.axes(name):
            return inputs[name]
        return jnp.where(jnp.asarray(spread(mechanism.axes(name))), inputs[name], jnp.float32(1e4))

    call = jax.jit(mechanism.call)
    before, after = call(inputs), call({name: spoiled(name) for name in inputs})
    for one, other, axes in zip(before, after, mechanism.outputs, strict=True):
        real = spread(axes.split()) if axis in axes.split() else np.ones([1] * one.ndim, bool)
        close(np.where(real, other, 0), np.where(real, one, 0), 1e-6)


def empty(mechanism: Mechanism) -> None:
    """A row that may attend to nothing is zero, and sends zero gradients, never NaN."""
    rule, inputs = mechanism.empty, mechanism.arrays()
    inputs[rule.mask] = inputs[rule.mask].at[rule.at].set(False)
    function, floats = of_floats(mechanism, inputs)
    outputs, pull = jax.vjp(jax.jit(function), *floats)
    assert all(not np.any(x[rule.rows]) for x in outputs)
    assert any(np.any(x) for x in outputs)
    only = tuple(
        jnp.zeros_like(x).at[rule.rows].set(w[rule.rows])
        for x, w in zip(outputs, weigh(mechanism, outputs), strict=True)
    )
    assert all(not np.any(x) for x in pull(only))


def cached(mechanism: Mechanism) -> None:
    """One position at a time, with what is carried, equals the whole sequence at once."""
    inputs = mechanism.arrays()
    close(
        jax.jit(lambda x: tuple(jax.tree.leaves(mechanism.cached(**x, **mechanism.settings))))(inputs),
        jax.jit(mechanism.call)(inputs),
    )

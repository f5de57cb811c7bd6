"""Laws for unusual inputs and for higher derivatives that every mechanism of the catalogue must satisfy.

`derivatives`: forward mode and second derivatives. `extremes`: finite gradients for tiny, huge and constant inputs.
`integers`: any integer dtype gives the same numbers, floats are refused. `emptied`: axes of size 0. `scales`: a scale
that is an array, which may be learned.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from tests.catalogue import Mechanism
from tests.kernels import laws

#: Changes to the float inputs. Inputs that a mechanism draws itself (probabilities, temperatures) are not changed.
EXTREMES = {
    "zero": lambda x: 0 * x,
    "1e-30": lambda x: 1e-30 * x,
    "1e-14": lambda x: 1e-14 * x,
    "5": lambda x: 5 * x,
    "100": lambda x: 100 * x,
    "1e4": lambda x: 1e4 * x,
    "constant": lambda x: 0 * x + 1,
    "constant -25": lambda x: 0 * x - 25,
    "constant -1e4": lambda x: 0 * x - 1e4,
    "negative": lambda x: -25 * np.abs(x),
}
#: More classes than a byte can count, for mechanisms with a setting for the number of classes.
WIDE = {"copy_distribution": {"vocabulary_size": 300}}
#: Sizes that must change together with an axis of size 0: (mechanism, axis) -> the sizes.
FOLLOWS = {("convolutional_copy_attention", "S"): {"P": 2}, ("transformer_xl", "S"): {"P": 0}}


def derivatives(mechanism: Mechanism) -> None:
    """Forward mode equals the gradient. Hessian-vector products equal differences of the gradient, in float64.

    If the gradient is not that of the value (`no_finite_differences`), two ways to compute the product are compared.
    """
    with jax.enable_x64(True):
        names = mechanism.floats()
        inputs = {n: jnp.asarray(x, np.float64 if n in names else None) for n, x in mechanism.arrays().items()}
        function, at = laws.of_floats(mechanism, inputs)
        random = np.random.default_rng(2)
        move = [jnp.asarray(random.standard_normal(np.shape(x))) for x in at]
        weights = laws.weigh(jax.eval_shape(function, *at))

        def loss(x):
            return sum(jnp.sum(w * (y + y * y / 2)) for w, y in zip(weights, function(*x), strict=True))

        gradient = jax.grad(loss)
        dot = lambda a, b: sum(map(jnp.vdot, a, b))

        @jax.jit
        def every(x):
            along, product = jax.jvp(lambda x: (loss(x), gradient(x)), (x,), (move,))[1]
            return along, product, jax.grad(lambda x: dot(gradient(x), move))(x), gradient(x)

        along, forward, reverse, here = every(at)
        np.testing.assert_allclose(along, dot(here, move), rtol=1e-9, atol=1e-9)
        for one, other in zip(forward, reverse, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * max(1, np.abs(one).max(initial=0)))
        if mechanism.no_finite_differences:
            return
        step = 1e-5
        above, below = (every([x + s * m for x, m in zip(at, move, strict=True)])[3] for s in (step, -step))
        difference = [(np.asarray(a) - np.asarray(b)) / (2 * step) for a, b in zip(above, below, strict=True)]
        largest = max(np.abs(x).max(initial=0) for x in difference)
        for name, one, other in zip(names, forward, difference, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * max(1, largest), err_msg=name)


def scales(mechanism: Mechanism) -> None:
    """A scale that is an array gives the outputs of the same number, and a slope where they depend on it."""
    given = jax.tree.map(jnp.asarray, mechanism.arrays())
    settings = {name: value for name, value in mechanism.settings.items() if name != "scale"}
    call = lambda scale: laws.floating(jax.tree.leaves(mechanism.function(**given, **settings, scale=scale)))
    outputs, slopes = jax.jit(lambda scale: jax.jvp(call, (scale,), (jnp.ones_like(scale),)))(jnp.float32(0.3))
    here, there = jax.jit(lambda: (call(0.3), call(0.6)))()
    laws.close(outputs, here, 1e-4)
    change = max(np.abs(one - other).max(initial=0) for one, other in zip(here, there, strict=True))
    # In quotients the scale cancels.
    assert max(np.abs(slope).max(initial=0) for slope in slopes) >= (change - 1e-4) / 3


def extremes(mechanism: Mechanism) -> None:
    """Outputs and all gradients are finite for inputs of any size."""
    given, pull, names = mechanism.arrays(), laws.programs(mechanism).pull, mechanism.floats()
    cotangents = laws.weigh(laws.floating(jax.eval_shape(mechanism.call, given)))
    for case, change in EXTREMES.items():
        free = [name for name in names if name not in mechanism.draw]
        inputs = {name: np.asarray(change(x), np.float32) if name in free else x for name, x in given.items()}
        outputs, gradients = pull(inputs, cotangents)
        for axes, x in zip(mechanism.outputs, outputs, strict=False):
            assert np.isfinite(x).all(), f"{case}: output {axes}"
        for name, x in zip(names, gradients, strict=True):
            assert np.isfinite(x).all(), f"{case}: gradient of {name}"


def integers(mechanism: Mechanism) -> None:
    """Inputs of int8 to uint32 give the same results as int32. Float inputs are refused by name."""
    names = [name for name in mechanism.inputs if mechanism.kind(name) == "int"]
    mechanism = dataclasses.replace(mechanism, settings={**mechanism.settings, **WIDE.get(mechanism.name, {})})
    given = mechanism.arrays({axis: 150 for axis in mechanism.grows})
    given = {name: np.clip(x, None, 127).astype(np.int32) if name in names else x for name, x in given.items()}
    positive = {name: np.maximum(x, 0) if name in names else x for name, x in given.items()}
    cast = lambda inputs, dtype: {name: x.astype(dtype) if name in names else x for name, x in inputs.items()}
    call = jax.jit(lambda every: [mechanism.call(inputs) for inputs in every])
    jaxtyping.config.update("jaxtyping_disable", True)  # jaxtyping's Int is signed; the kernels accept more
    try:
        for inputs, dtypes in ((given, ("int32", "int8", "int16")), (positive, ("int32", "uint8", "uint16", "uint32"))):
            wanted, *found = call([cast(inputs, dtype) for dtype in dtypes])
            for dtype, outputs in zip(dtypes[1:], found, strict=True):
                for one, other in zip(outputs, wanted, strict=True):
                    assert one.dtype == other.dtype, dtype
                    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=dtype)
        for name in names:
            with pytest.raises(ValueError, match=rf"^{name}: expected integers"):
                jax.eval_shape(mechanism.call, {**given, name: given[name].astype(np.float32)})
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def emptied(mechanism: Mechanism) -> None:
    """Empty axes (no examples, queries or keys) give finite outputs and gradients of the right shape, or an error.

    The error is a ValueError that names the argument and the axis.
    """
    for axis in dict.fromkeys(("B", *mechanism.grows)):
        if not any(axis in mechanism.axes(name) for name in mechanism.inputs):
            continue
        sizes = {axis: 0, **FOLLOWS.get((mechanism.name, axis), {})}
        full = mechanism.arrays(sizes | {axis: max(mechanism.size(axis), 1)})
        cut = lambda name, full=full, axis=axis: tuple(slice(0, 0 if a == axis else None) for a in mechanism.axes(name))
        inputs = {name: jnp.asarray(x[cut(name)]) if mechanism.kind(name) != "key" else x for name, x in full.items()}
        try:
            shapes = jax.eval_shape(mechanism.call, inputs)
        except ValueError as error:
            assert axis in mechanism.refuses_empty and f"axis {axis}" in str(error), f"{axis}: {error}"
            continue
        for x, axes in zip(shapes, mechanism.outputs, strict=True):
            assert all(n == 0 for n, a in zip(x.shape, axes.split(), strict=True) if a == axis), f"{axis}: {x.shape}"
        call, pull = laws.programs(mechanism)
        found = pull(inputs, laws.weigh(laws.floating(shapes))) if mechanism.floats() else call(inputs)
        assert all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(found)), axis

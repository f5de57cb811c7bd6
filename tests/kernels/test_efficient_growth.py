"""Sub-quadratic mechanisms: operations and the largest array, gradients included, at most double with the length.

They are counted in the program before it is compiled, so that the result does not depend on the machine.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from attention_research.kernels import dot_product_attention
from tests.catalogue.efficient import PATTERNS
from tests.tiers import fast_are

SHORT, LONG = 1009, 2017
#: A convolution's stride equals its kernel width: a larger one gives fewer cells, but always S / W of them.
LINEAR = [one for one in PATTERNS if one.name != "linformer_convolution"]


def program(mechanism, length):
    """(largest array in elements, operations) of the outputs and the gradients of all float inputs."""
    inputs = jax.eval_shape(lambda: mechanism.arrays({axis: length for axis in mechanism.grows}))
    names = mechanism.floats()

    def both(inputs):
        function = lambda *x: mechanism.call({**inputs, **dict(zip(names, x, strict=True))})
        outputs, pull = jax.vjp(function, *(inputs[name] for name in names))
        return outputs, pull(outputs)

    lowered = jax.jit(both).lower(inputs)
    return largest(jax.make_jaxpr(both)(inputs).jaxpr), lowered.cost_analysis()["flops"]


def largest(jaxpr) -> int:
    """The number of elements of the largest array in a program, including loops and calls."""
    sizes = [int(np.prod(v.aval.shape)) for equation in jaxpr.eqns for v in equation.outvars]
    inner = [largest(one) for equation in jaxpr.eqns for one in jaxprs_in_params(equation.params)]
    return max([0, *sizes, *inner])


@pytest.mark.parametrize(
    "mechanism",
    fast_are(["bigbird", "linformer_none"], {mechanism.name: mechanism for mechanism in LINEAR}),
)
def test_memory_and_operations_grow_with_the_length_alone(mechanism):
    (memory, operations), (more_memory, more_operations) = (program(mechanism, length) for length in (SHORT, LONG))
    assert more_memory < 2.2 * memory and more_operations < 2.2 * operations


def test_dense_attention_exceeds_the_bounds():
    def program_of(length):
        x = jax.ShapeDtypeStruct((1, length, 1, 2), np.float32)
        function = lambda x: dot_product_attention(x, x, x, implementation="reference")
        return largest(jax.make_jaxpr(function)(x).jaxpr), jax.jit(function).lower(x).cost_analysis()["flops"]

    assert all(more > 3.5 * few for few, more in zip(program_of(SHORT), program_of(LONG), strict=True))

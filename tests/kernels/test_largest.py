"""`largest` has PyTorch's value and gradient, and no caller compares values with their maximum in a gradient."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.accounting.programs import trace
from attention_research.kernels.experts import top_2_routing
from attention_research.kernels.largest import largest
from tests.kernels.laws import compared_maxima


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_value_and_gradient_are_those_of_pytorch(torch, axis):
    random = np.random.default_rng(0)
    x = random.integers(-2, 3, (4, 5, 6)).astype(np.float32)  # many ties: the first maximum counts
    theirs = torch.tensor(x, requires_grad=True)
    value, place = theirs.max(dim=axis)
    weights = random.standard_normal(value.shape).astype(np.float32)
    (value * torch.tensor(weights)).sum().backward()
    ours, back = jax.vjp(lambda x: largest(x, axis), x)
    np.testing.assert_array_equal(ours, value.detach())
    np.testing.assert_array_equal(np.argmax(x, axis), place)
    np.testing.assert_array_equal(back(jnp.asarray(weights))[0], theirs.grad)


def test_extremes():
    nan, inf = np.nan, np.inf
    x = jnp.asarray([[1, nan, 3], [-inf, -inf, -inf], [-inf, 2, inf], [-3, -1, -2]], jnp.float32)
    np.testing.assert_array_equal(largest(x, 1), [nan, -inf, inf, -1])
    assert largest(jnp.zeros((2, 0, 3)), 1).tolist() == [[-inf] * 3] * 2
    assert largest(jnp.zeros((2, 0, 3)), -2, of_none=0.0).tolist() == [[0.0] * 3] * 2
    assert largest(jnp.asarray([[1, 3, 2]], jnp.bfloat16), 1).dtype == jnp.bfloat16


def test_comparisons_with_the_maximum_are_detected():
    x = jnp.ones((2, 3))
    assert len(compared_maxima(trace(jax.grad(lambda x: jnp.max(x, axis=-1).sum()), x).jaxpr)) == 1
    assert compared_maxima(trace(jax.grad(lambda x: largest(x, -1).sum()), x).jaxpr) == []


def test_routing_does_not_compare_with_the_maximum():
    logits = jax.random.normal(jax.random.key(0), (1, 4, 3))
    routed = jax.grad(lambda x: top_2_routing(x, capacity=2).combine.sum())
    assert compared_maxima(trace(routed, logits).jaxpr) == []


def test_modules_use_largest_for_maxima(root):
    """laws.py checks each kernel of the catalogue. The modules that use them must not compute maxima differently."""
    words = re.compile(r"jnp\.(a?max|a?min|nanmax|nanmin)\(|nnx\.max_pool")
    files = [
        path for floor in ("layers", "models", "tasks") for path in (root / "attention_research" / floor).rglob("*.py")
    ]
    assert len(files) > 100 and [str(path) for path in files if words.search(path.read_text())] == []

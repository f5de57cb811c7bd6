"""The inverse of unit lower-triangular matrices against SciPy; no kernel calls LAPACK, which may not return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from attention_research.kernels.state import delta_attention, state_attention
from attention_research.kernels.triangular import unit_lower_inverse, unit_lower_solve
from attention_research.kernels.variants.path import path_logits


@pytest.mark.parametrize("C", [0, 1, 2, 5, 16, 23])
def test_the_inverse_is_scipys(C):
    strict = np.tril(np.random.default_rng(C).standard_normal((2, 3, C, C)), -1)
    want = [
        [scipy.linalg.solve_triangular(np.eye(C) + a, np.eye(C), lower=True) if C else a for a in b] for b in strict
    ]
    with jax.enable_x64(True):
        np.testing.assert_allclose(unit_lower_inverse(jnp.asarray(strict)), np.reshape(want, strict.shape), rtol=1e-9)


def test_float32_keeps_its_digits_for_strong_writes():
    """The systems of the delta rule with factors up to 2, unit keys of width 8 and 128 positions."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((4, 128, 8))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    strict = np.tril(rng.uniform(0, 2, (4, 128, 1)) * (keys @ keys.swapaxes(1, 2)), -1)
    found = np.asarray(jax.jit(unit_lower_inverse)(jnp.float32(strict)), np.float64)
    want = np.linalg.inv(np.eye(128) + strict)
    assert np.abs(found - want).max() < 2e-5 * np.abs(want).max()


def test_no_kernel_solves_by_lapack():
    B, T, N, H = 2, 5, 3, 4
    x = jnp.ones((B, T, N, H))
    programs = (
        lambda: delta_attention(x, x, x, jnp.ones((B, T, N))),
        lambda: state_attention(x, x, x, read=x, write=x),
        lambda: path_logits(x, x, x, jnp.ones((B, T, N))),
    )
    for program in programs:
        assert "triangular_solve" not in str(jax.make_jaxpr(program)())


@pytest.mark.slow
def test_the_solution_and_its_derivatives():
    """Against the same function of NumPy's inverse: the value and its first and second derivatives in both modes."""
    random = np.random.default_rng(2)
    with jax.enable_x64(True):
        given = jnp.tril(random.standard_normal((2, 5, 5)), -1), jnp.asarray(random.standard_normal((2, 5, 3)))
        weight = random.standard_normal((2, 5, 3))

        def facts(solve):
            loss = lambda strict, right: jnp.sum(jnp.sin(solve(jnp.tril(strict, -1), right)) * weight)
            slope = lambda *given: jax.jvp(loss, given, jax.tree.map(jnp.cos, given))
            return (
                loss(*given),
                jax.grad(loss, (0, 1))(*given),
                slope(*given)[1],
                jax.grad(lambda *given: slope(*given)[1], (0, 1))(*given),
            )

        inverted = lambda strict, right: jnp.linalg.inv(jnp.eye(5) + strict) @ right
        got, want = jax.jit(lambda: (facts(unit_lower_solve), facts(inverted)))()
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

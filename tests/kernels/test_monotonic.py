"""Monotonic alignment, Raffel et al. 2017: against the sum over all paths, the released code, and simulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import hard_monotonic_decode, monotonic_alignment
from attention_research.kernels.selection import choosing_probability, monotonic_energy

B, S = 3, 11
align = jax.jit(monotonic_alignment, static_argnames="mode")


def paths64(p, previous):
    """alpha_j = p_j sum_k previous_k prod_{k <= l < j} (1 - p_l): equation 9, each path separately."""
    p, previous = np.asarray(p, np.float64), np.asarray(previous, np.float64)
    alpha = np.zeros_like(p)
    for b, j in np.ndindex(*p.shape):
        for k in range(j + 1):
            alpha[b, j] += p[b, j] * previous[b, k] * np.prod(1 - p[b, k:j])
    return alpha


def uniform(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).random(shape), jnp.float32)


def start(length=S, batch=B):
    return jnp.zeros((batch, length)).at[:, 0].set(1)


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
def test_alignment_is_the_sum_over_paths(mode):
    """Four outputs from a one-hot start at 0, each row computed from the previous one. Rows only lose mass."""
    previous = start()
    for output in range(4):
        p = 0.6 * uniform(B, S, seed=output)
        want = paths64(p, previous)
        previous = align(p, previous, mode=mode)
        np.testing.assert_allclose(previous, want, atol=1e-6, rtol=1e-4)
        assert np.all(previous.sum(axis=1) <= 1 + 1e-6)
    assert np.any(previous.sum(axis=1) < 0.9)


def test_the_process_itself_has_these_probabilities():
    """Simulates Bernoulli draws from left to right from the previous position, and counts the third positions."""
    random, runs = np.random.default_rng(7), 40_000
    p = np.asarray(uniform(3, 1, 5, seed=3), np.float64) * 0.8
    position = np.zeros(runs, int)
    for row in p[:, 0]:
        for j in range(5):
            position += (position == j) & (random.random(runs) >= row[j])
    counts = np.bincount(position, minlength=6)[:5] / runs
    alpha = start(5, 1)
    for row in p:
        alpha = align(jnp.asarray(row, jnp.float32), alpha)
    assert np.all(np.abs(counts - alpha[0]) <= 4 * np.sqrt(alpha[0] * (1 - alpha[0]) / runs))


def test_parallel_equals_recursive_for_short_sequences():
    length = 47
    p, previous = 0.35 * uniform(B, length), jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(length), B))
    one, other = (align(p, previous.astype(jnp.float32), mode=mode) for mode in ("recursive", "parallel"))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_parallel_is_inaccurate_for_long_sequences_and_recursive_is_not():
    """cumprod(1 - p) falls below 1e-10 before the second half begins, where all the mass is."""
    p, previous = jnp.full((1, 101), 0.4), jnp.zeros((1, 101)).at[:, 60].set(1)
    want = paths64(p, previous)
    np.testing.assert_allclose(align(p, previous), want, atol=1e-6)
    drifted = align(p, previous, mode="parallel")
    assert np.isfinite(drifted).all() and drifted.sum() < 0.5 and want.sum() > 0.99


def test_parallel_is_the_released_code(torch):
    """craffel/mad: safe_cumprod in log space with 1e-10, in PyTorch; values and gradients, also for p near 0 and 1."""
    p = jnp.concatenate([uniform(B, S), uniform(B, 5) * 1e-4, 1 - uniform(B, 5) * 1e-4, uniform(B, S, seed=5)], axis=1)
    previous = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(p.shape[1]), B), jnp.float32)
    got, pull = jax.vjp(lambda *x: align(*x, mode="parallel"), p, previous)
    weight = uniform(*p.shape, seed=2)
    x, y = (torch.tensor(np.asarray(a, np.float64), requires_grad=True) for a in (p, previous))
    log = torch.log(torch.clamp(1 - x, 1e-10, 1))
    product = torch.exp(torch.cumsum(log, 1) - log)
    theirs = x * product * torch.cumsum(y / torch.clamp(product, 1e-10, 1), 1)
    theirs.backward(torch.tensor(np.asarray(weight, np.float64)))
    np.testing.assert_allclose(got, theirs.detach().numpy(), atol=1e-6, rtol=1e-3)
    for one, other in zip(pull(weight), (x.grad, y.grad), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=2e-3, atol=1e-3 * np.abs(other.numpy()).max())


def test_recursive_is_exact_at_zero_and_one():
    p = jnp.array([[0.0, 1.0, 0.0, 0.5, 1.0, 1.0]])
    previous = jnp.array([[0.5, 0.0, 0.5, 0.0, 0.0, 0.0]])
    call = lambda x: align(x, previous)
    np.testing.assert_allclose(call(p), [[0, 0.5, 0, 0.25, 0.25, 0]], atol=1e-7)
    assert np.isfinite(jax.grad(lambda x: (call(x) ** 2).sum())(p)).all()


def test_hard_takes_the_first_position_from_the_previous_one_on():
    p = jnp.array([[0, 0, 0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0], [0.4, 0.6, 0.5, 0.2, 0.9, 0, 0, 0]], jnp.float32)
    previous = jax.nn.one_hot(jnp.array([2, 1, 2]), 8)
    want = np.zeros((3, 8))
    want[0, 3] = want[2, 4] = 1  # 1/2 is not above the threshold
    got = align(p, previous, mode="hard")
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(align(p, got, mode="hard"), want)  # it may stay at the same position
    np.testing.assert_array_equal(align(jnp.ones_like(p), got, mode="hard")[1], np.zeros(8))  # ended for good


def test_the_online_decoder_equals_the_hard_mode_and_reads_as_little_as_possible():
    """A callback counts every call of the energy: from the previous position to the chosen one."""
    length, outputs = 17, 9
    energies = jnp.asarray(np.random.default_rng(3).normal(-0.8, 1, (outputs, length)), jnp.float32)
    called = []

    @jax.jit
    def decode(row, previous):
        def energy_at(position):
            jax.debug.callback(lambda j: called.append(int(j)), position, ordered=True)
            return row[position]

        return hard_monotonic_decode(energy_at, previous, length)

    position, alignment, total = jnp.int32(0), start(length, 1), 0
    for row in energies:
        called.clear()
        previous = int(position)
        position, count = decode(row, position)
        jax.effects_barrier()
        above = [j for j in range(previous, length) if row[j] > 0]
        assert int(position) == (above[0] if above else length)
        assert called == list(range(previous, min(int(position) + 1, length))) and int(count) == len(called)
        alignment = align(jax.nn.sigmoid(row)[None], alignment, mode="hard")
        np.testing.assert_array_equal(alignment[0], jax.nn.one_hot(position, length))
        total += int(count)
    assert int(position) == length and total <= length + outputs  # linear in both; the dense mode needs their product


def test_the_online_decoder_treats_examples_independently():
    energies = jnp.array([[-1.0, -1, 2, 3], [1, 1, 1, 1], [-1, -1, -1, 5]])
    decode = jax.vmap(lambda row, previous, length: hard_monotonic_decode(lambda j: row[j], previous, length))
    position, count = decode(energies, jnp.array([1, 0, 0]), jnp.array([4, 4, 3]))
    np.testing.assert_array_equal(position, [2, 0, 3])
    np.testing.assert_array_equal(count, [2, 1, 3])
    done = hard_monotonic_decode(lambda j: jnp.float32(1), 4, 4)
    np.testing.assert_array_equal(done, [4, 0])


def test_an_energy_that_is_not_a_scalar_is_refused():
    with pytest.raises(ValueError, match=r"energy_at: expected a scalar, got shape \[1\]"):
        hard_monotonic_decode(lambda j: jnp.ones((1,)), 0, 3)


def test_energies_are_torchs_weight_normalised_layer(normal, torch):
    """g v / ||v|| is PyTorch's weight_norm of a linear layer without bias."""
    query, keys, w, u, b, v = normal(2, 3, 5), normal(2, 7, 11), normal(13, 5), normal(13, 11), normal(13), normal(13)
    gain, offset = jnp.float32(0.4), jnp.float32(-1.5)
    got = jax.jit(monotonic_energy)(query, keys, w, u, b, v, gain, offset)
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(13, 1, bias=False).double())
    layer.parametrizations.weight.original0.data = torch.full((1, 1), 0.4, dtype=torch.float64)
    layer.parametrizations.weight.original1.data = torch.tensor(np.asarray(v, np.float64))[None]
    s, h, w, u, b = (torch.tensor(np.asarray(x, np.float64)) for x in (query, keys, w, u, b))
    hidden = torch.nn.functional.linear(s, w)[:, :, None] + torch.nn.functional.linear(h, u, b)[:, None]
    np.testing.assert_allclose(got, layer(torch.tanh(hidden))[..., 0].detach().numpy() - 1.5, atol=2e-6)


def test_noise_is_normal_and_before_the_sigmoid(normal):
    energy = normal(2, 3, 5)
    plain = choosing_probability(energy)
    np.testing.assert_allclose(plain, 1 / (1 + np.exp(-np.asarray(energy, np.float64))), atol=1e-6)
    many = jnp.broadcast_to(energy[:1, :1, :1], (1, 100, 200))
    noisy = np.asarray(choosing_probability(many, jax.random.key(0), deviation=0.5), np.float64)
    noise = (np.log(noisy / (1 - noisy)) - float(energy[0, 0, 0])) / 0.5
    assert abs(noise.mean()) < 0.03 and abs(noise.std() - 1) < 0.03
    assert abs((np.abs(noise) < 1).mean() - 0.6827) < 0.02
    mask = jnp.arange(5) < 3
    masked = choosing_probability(energy, jax.random.key(0), mask=mask[None, None])
    assert not np.any(masked[..., 3:]) and np.all(masked[..., :3] > 0)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode: expected one of recursive, parallel, hard, got 'soft'"):
        monotonic_alignment(uniform(B, S), start(), mode="soft")

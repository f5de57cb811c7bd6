"""Attention that selects: hard, local and monotonic."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels import (
    hard_attention,
    hard_monotonic_decode,
    latent_monotonic,
    local_weights,
    mocha_weights,
    monotonic_alignment,
)
from attention_research.kernels.selection import (
    attention_entropy,
    choosing_probability,
    gumbel_attention,
    local_window,
    monotonic_energy,
    predicted_centers,
    reinforce_surrogate,
    semi_sampled_attention,
)
from tests.catalogue.mechanism import Mechanism

_HARD = partial(Mechanism, oracle="hard_attention::log_probabilities_and_contexts")
_GUMBEL = partial(
    Mechanism,
    gumbel_attention,
    draw={"temperature": lambda random, shape: np.float32(0.7)},
    oracle="gumbel::weights_are_torchs_with_its_gradients",
)
_ALIGNMENT = partial(Mechanism, monotonic_alignment, causal="S", oracle="monotonic::alignment_is_the_sum_over_paths")


def _probabilities(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.random(shape)


def _distribution(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows that sum to less than 1, as after an output that may not have chosen a position."""
    return 0.9 * random.dirichlet(np.ones(shape[-1]), shape[:-1])


def _positions(length: int):
    """Real-valued positions, some of them outside the sequence."""
    return lambda random, shape: random.uniform(-1, length + 1, shape)


def _one_hot(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.eye(shape[-1])[random.integers(3, 6, shape[:-1])]


def _few_choices(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities with few above a half, so that the chosen position is sometimes near and sometimes far."""
    p = 0.45 * random.random(shape)
    p[0, [0, 6]] = p[1, -2] = 0.8
    return p


def _two_missing(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(~np.isin(np.arange(shape[-1]), [2, 9]), shape)


def _one_by_one(p_choose, previous, mask, mode):
    """The recurrence of equation 13, position by position."""

    def step(carried, given):
        p, start = given
        q = carried + start
        return (1 - p) * q, p * q

    given = tuple(jnp.where(mask, x, jnp.zeros_like(x)).T for x in (p_choose, previous))
    return jax.lax.scan(step, jnp.zeros_like(p_choose[:, 0]), given)[1].T


def _online(p_choose, previous, mask, mode):
    """The choice of the online decoder, which reads only as far as necessary."""
    S = p_choose.shape[1]

    def one(p, start, real):
        started = jnp.any(jnp.where(real, start, jnp.zeros_like(start)) > 0)
        from_here = jnp.where(started, jnp.argmax(start), S)
        energy_at = lambda position: jnp.where(real[position], p[position] - 0.5, -1.0)
        position, _ = hard_monotonic_decode(energy_at, from_here, S)
        return jax.nn.one_hot(position, S)

    return jax.vmap(one)(p_choose, previous, mask)


_LOCAL = partial(
    Mechanism,
    local_weights,
    without="positions",
    draw={"centers": _positions(13)},
    permutable=("T",),
    oracle="local_attention::weights_are_the_equation",
)

MECHANISMS = (
    _HARD(hard_attention, "hard_sampled"),
    _HARD(
        hard_attention,
        "hard_argmax",
        settings={"key": None},
        permutable=("T", "S"),
        flat={"scores": "the argmax is constant almost everywhere, and nothing was sampled"},
        no_finite_differences="the gradient of the log-probability is stopped",
    ),
    _HARD(
        semi_sampled_attention,
        "hard_semi_sampled",
        draw={"sampled": lambda random, shape: random.random() > 0.6},
    ),
    Mechanism(
        reinforce_surrogate,
        "reinforce",
        permutable=("T",),
        breaks=("grows",),
        flat={"cost": "a constant of the estimator", "baseline": "a constant of the estimator"},
        no_finite_differences="cost and baseline affect the value but not the gradient",
        oracle="reinforce::the_estimate_is_unbiased",
    ),
    Mechanism(attention_entropy, permutable=("T", "S"), oracle="reinforce::entropy_is_that_of_scipy"),
    _GUMBEL("gumbel_softmax", settings={"straight_through": False}),
    _GUMBEL(
        "gumbel_straight_through",
        no_finite_differences="the gradient is deliberately that of another function",
    ),
    _LOCAL(
        "local_m",
        settings={"half_width": 3, "gaussian": False},
        flat={"centers": "they only determine which keys are in the window"},
    ),
    _LOCAL("local_p", settings={"half_width": 3, "gaussian": True}),
    Mechanism(
        predicted_centers,
        sizes={"A": 37},
        draw={"lengths": lambda random, shape: random.integers(5, 13, shape)},
        permutable=("T",),
        oracle="local_attention::centers_are_the_equation",
    ),
    Mechanism(
        local_window,
        settings={"half_width": 3},
        sizes={"W": 7},
        draw={"centers": _positions(13)},
        permutable=("T",),
        breaks=("padding", "empty"),
        flat={"centers": "they only determine which positions are in the window"},
        blockwise=True,
        oracle="local_attention::windows_give_the_weights_and_contexts_of_the_whole_sequence",
    ),
    Mechanism(
        monotonic_energy,
        sizes={"A": 37},
        permutable=("T", "S"),
        oracle="monotonic::energies_are_torchs_weight_normalised_layer",
    ),
    Mechanism(
        choosing_probability,
        settings={"deviation": 0.3},
        oracle="monotonic::noise_is_normal_and_before_the_sigmoid",
    ),
    *(
        _ALIGNMENT(
            f"monotonic_{mode}",
            settings={"mode": mode},
            draw={"p_choose": _probabilities, "previous": _distribution},
            cached=_one_by_one,
        )
        for mode in ("recursive", "parallel")
    ),
    _ALIGNMENT(
        "monotonic_hard",
        settings={"mode": "hard"},
        draw={"p_choose": _few_choices, "previous": _one_hot, "mask": _two_missing},
        cached=_online,
        flat={"p_choose": "the threshold is constant almost everywhere"},
    ),
    Mechanism(
        hard_monotonic_decode,
        "monotonic_online",
        settings={"energy_at": lambda position: jnp.sin(position.astype(jnp.float32)) - 0.6},
        draw={
            "previous": lambda random, shape: random.integers(3, 9),
            "length": lambda random, shape: np.int32(13),
        },
        oracle="monotonic::the_online_decoder_equals_the_hard_mode_and_reads_as_little_as_possible",
    ),
    Mechanism(
        latent_monotonic,
        draw={"previous": _distribution},
        oracle="latent_monotonic::the_distribution_is_the_sum_over_paths",
    ),
    Mechanism(
        mocha_weights,
        "mocha",
        settings={"chunk_size": 3},
        draw={"alignment": _distribution},
        oracle="mocha::weights_are_the_explicit_sum",
    ),
)

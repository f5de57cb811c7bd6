"""Attention that selects: hard, local and monotonic."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels import (
    hard_attention,
    hard_monotonic_decode,
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
from tests.catalogue.mechanism import Empty, Mechanism

_TESTS = "tests/kernels/test_"
_SCORES = {"scores": "B T S", "values": "B S Dv", "mask": "bool B 1 S"}
_KEYED = {"key": "key", **_SCORES}
_MASKED: dict[str, Any] = dict(padding=("mask", "S"), empty=Empty("mask", np.s_[0], np.s_[0]), grows=("T", "S"))
_SET: dict[str, Any] = dict(permutable=("T", "S"), **_MASKED)
_HARD: dict[str, Any] = dict(
    outputs=("B T Dv", "B T S", "B T"), oracle=_TESTS + "hard_attention.py::test_log_probabilities_and_contexts"
)
_GUMBEL: dict[str, Any] = dict(
    outputs=("B T Dv", "B T S"), oracle=_TESTS + "gumbel.py::test_weights_are_torchs_with_its_gradients"
)
_ALIGNMENT: dict[str, Any] = dict(
    inputs={"p_choose": "B S", "previous": "B S", "mask": "bool B S"},
    outputs=("B S",),
    causal="S",
    padding=("mask", "S"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    grows=("S",),
    oracle=_TESTS + "monotonic.py::test_alignment_is_the_sum_over_paths",
)


def _probabilities(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.random(shape)


def _distribution(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows that sum to less than 1, as after an output that may have chosen nothing."""
    return 0.9 * random.dirichlet(np.ones(shape[-1]), shape[:-1])


def _positions(length: int):
    """Real positions, some of them beyond the ends."""
    return lambda random, shape: random.uniform(-1, length + 1, shape)


def _one_hot(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.eye(shape[-1])[random.integers(3, 6, shape[:-1])]


def _few_choices(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities of which few are above a half, so that the choice is sometimes near and sometimes far."""
    p = 0.45 * random.random(shape)
    p[0, [0, 6]] = p[1, -2] = 0.8
    return p


def _two_missing(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(~np.isin(np.arange(shape[-1]), [2, 9]), shape)


def _one_by_one(p_choose, previous, mask, mode):
    """The recurrence of equation 13, position after position."""

    def step(carried, given):
        p, start = given
        q = carried + start
        return (1 - p) * q, p * q

    given = tuple(jnp.where(mask, x, jnp.zeros_like(x)).T for x in (p_choose, previous))
    return jax.lax.scan(step, jnp.zeros_like(p_choose[:, 0]), given)[1].T


def _online(p_choose, previous, mask, mode):
    """What the online decoder chooses, which reads no further than it must."""
    S = p_choose.shape[1]

    def one(p, start, real):
        started = jnp.any(jnp.where(real, start, jnp.zeros_like(start)) > 0)
        from_here = jnp.where(started, jnp.argmax(start), S)
        energy_at = lambda position: jnp.where(real[position], p[position] - 0.5, -1.0)
        position, _ = hard_monotonic_decode(energy_at, from_here, S)
        return jax.nn.one_hot(position, S)

    return jax.vmap(one)(p_choose, previous, mask)


MECHANISMS = (
    Mechanism("hard_sampled", hard_attention, _KEYED, **_HARD, **_MASKED),
    Mechanism(
        "hard_argmax",
        hard_attention,
        _SCORES,
        settings={"key": None},
        flat={"scores": "the argmax is constant almost everywhere, and nothing was sampled"},
        no_finite_differences="the log-probability is a value to look at, its gradient is stopped",
        **_HARD,
        **_SET,
    ),
    Mechanism(
        "hard_semi_sampled",
        semi_sampled_attention,
        {"key": "key", "sampled": "bool", **_SCORES},
        draw={"sampled": lambda random, shape: random.random() > 0.6},
        **_HARD,
        **_MASKED,
    ),
    Mechanism(
        "reinforce",
        reinforce_surrogate,
        {"log_prob": "B T", "cost": "B T", "baseline": "", "mask": "bool B T"},
        outputs=("B T",),
        permutable=("T",),
        padding=("mask", "T"),
        empty=Empty("mask", np.s_[0], np.s_[0]),
        flat={"cost": "a constant of the estimator", "baseline": "a constant of the estimator"},
        no_finite_differences="cost and baseline are in the value and not in the gradient",
        oracle=_TESTS + "reinforce.py::test_the_estimate_is_unbiased",
    ),
    Mechanism(
        "attention_entropy",
        attention_entropy,
        {"scores": "B T S", "mask": "bool B 1 S"},
        outputs=("B T",),
        oracle=_TESTS + "reinforce.py::test_entropy_is_that_of_scipy",
        **_SET,
    ),
    Mechanism(
        "gumbel_softmax",
        gumbel_attention,
        {**_KEYED, "temperature": ""},
        settings={"straight_through": False},
        draw={"temperature": lambda random, shape: np.float32(0.7)},
        **_GUMBEL,
        **_MASKED,
    ),
    Mechanism(
        "gumbel_straight_through",
        gumbel_attention,
        {**_KEYED, "temperature": ""},
        draw={"temperature": lambda random, shape: np.float32(0.7)},
        no_finite_differences="the gradient is another function's, on purpose",
        **_GUMBEL,
        **_MASKED,
    ),
    Mechanism(
        "local_m",
        local_weights,
        {"scores": "B T S", "centers": "B T", "mask": "bool B 1 S"},
        settings={"half_width": 3, "gaussian": False},
        draw={"centers": _positions(13)},
        outputs=("B T S",),
        permutable=("T",),
        flat={"centers": "they only say which keys are in the window"},
        oracle=_TESTS + "local_attention.py::test_weights_are_the_equation",
        **_MASKED,
    ),
    Mechanism(
        "local_p",
        local_weights,
        {"scores": "B T S", "centers": "B T", "mask": "bool B 1 S"},
        settings={"half_width": 3, "gaussian": True},
        draw={"centers": _positions(13)},
        outputs=("B T S",),
        permutable=("T",),
        oracle=_TESTS + "local_attention.py::test_weights_are_the_equation",
        **_MASKED,
    ),
    Mechanism(
        "predicted_centers",
        predicted_centers,
        {"query": "B T Dq", "weight": "A Dq", "v": "A", "lengths": "int B"},
        outputs=("B T",),
        sizes={"A": 37},
        draw={"lengths": lambda random, shape: random.integers(5, 13, shape)},
        permutable=("T",),
        oracle=_TESTS + "local_attention.py::test_centers_are_the_equation",
        grows=("T",),
    ),
    Mechanism(
        "local_window",
        local_window,
        {"sequence": "B S D", "centers": "B T", "mask": "bool B S"},
        settings={"half_width": 3},
        sizes={"W": 7},
        draw={"centers": _positions(13)},
        outputs=("B T W D", "B T W", "B T W"),
        permutable=("T",),
        flat={"centers": "they only say which positions are in the window"},
        blockwise=True,
        oracle=_TESTS + "local_attention.py::test_windows_give_the_weights_and_contexts_of_the_whole_sequence",
        grows=("T", "S"),
    ),
    Mechanism(
        "monotonic_energy",
        monotonic_energy,
        {
            "query": "B T Dq",
            "keys": "B S Dk",
            "query_weight": "A Dq",
            "key_weight": "A Dk",
            "bias": "A",
            "v": "A",
            "gain": "",
            "offset": "",
        },
        outputs=("B T S",),
        sizes={"A": 37},
        permutable=("T", "S"),
        oracle=_TESTS + "monotonic.py::test_energies_are_torchs_weight_normalised_layer",
        grows=("T", "S"),
    ),
    Mechanism(
        "choosing_probability",
        choosing_probability,
        {"energy": "B T S", "key": "key", "mask": "bool B 1 S"},
        settings={"deviation": 0.3},
        outputs=("B T S",),
        oracle=_TESTS + "monotonic.py::test_noise_is_normal_and_before_the_sigmoid",
        **_MASKED,
    ),
    Mechanism(
        "monotonic_recursive",
        monotonic_alignment,
        settings={"mode": "recursive"},
        draw={"p_choose": _probabilities, "previous": _distribution},
        cached=_one_by_one,
        **_ALIGNMENT,
    ),
    Mechanism(
        "monotonic_parallel",
        monotonic_alignment,
        settings={"mode": "parallel"},
        draw={"p_choose": _probabilities, "previous": _distribution},
        cached=_one_by_one,
        **_ALIGNMENT,
    ),
    Mechanism(
        "monotonic_hard",
        monotonic_alignment,
        settings={"mode": "hard"},
        draw={"p_choose": _few_choices, "previous": _one_hot, "mask": _two_missing},
        cached=_online,
        flat={"p_choose": "the threshold is constant almost everywhere"},
        **_ALIGNMENT,
    ),
    Mechanism(
        "monotonic_online",
        hard_monotonic_decode,
        {"previous": "int", "length": "int"},
        settings={"energy_at": lambda position: jnp.sin(position.astype(jnp.float32)) - 0.6},
        outputs=("", ""),
        draw={
            "previous": lambda random, shape: random.integers(3, 9),
            "length": lambda random, shape: np.int32(13),
        },
        oracle=_TESTS + "monotonic.py::test_the_online_decoder_chooses_as_the_hard_mode_and_reads_no_more_than_it_must",
    ),
    Mechanism(
        "mocha",
        mocha_weights,
        {"alignment": "B S", "chunk_scores": "B S", "mask": "bool B S"},
        settings={"chunk_size": 3},
        draw={"alignment": _distribution},
        outputs=("B S",),
        padding=("mask", "S"),
        empty=Empty("mask", np.s_[0], np.s_[0]),
        oracle=_TESTS + "mocha.py::test_weights_are_the_explicit_sum",
        grows=("S",),
    ),
)

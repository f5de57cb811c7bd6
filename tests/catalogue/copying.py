"""Attention that copies from the source, and coverage."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from attention_research.kernels import copy_distribution
from attention_research.kernels.copying import (
    convolutional_copy_attention,
    convolutional_features,
    copy_mixture_log_probability,
    coverage_attention,
    coverage_loss,
    generation_probability,
    pointer_generator,
)
from tests.catalogue.mechanism import Mechanism

_COVERAGE = "copying::coverage_attention_is_the_equation"
_CONVOLUTIONAL = "convolutional_copy::attention_is_the_equations_snippet_by_snippet"


def _distributions(random, shape):
    exponentials = np.exp(random.standard_normal(shape))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _probabilities(random, shape):
    return random.uniform(0.1, 0.9, shape)


def _log_probabilities(random, shape):
    return -random.uniform(0.5, 4.0, shape)


def _ids(high):
    """Tokens 0..high-1, each several times, and some invalid ones."""
    return lambda random, shape: random.integers(-1, high + 1, shape)


def _some_or_none(random, shape):
    found = random.random(shape) < 0.3
    found[:, ::2] = False
    return found


def _coverage(query, coverage, mask, **shared):
    """`coverage_attention` called with one query at a time, as in a decoder."""
    weights, before = [], []
    for t in range(query.shape[1]):
        now, covered = coverage_attention(query[:, t : t + 1], coverage=coverage, mask=mask, **shared)
        weights.append(now[:, 0])
        before.append(covered[:, 0])
        coverage = covered[:, 0] + now[:, 0]
    return jnp.stack(weights, 1), jnp.stack(before, 1)


MECHANISMS = (
    Mechanism(
        copy_distribution,
        oracle="copying::copy_distribution_adds_up_the_positions_of_each_token",
        settings={"vocabulary_size": 5},
        sizes={"V": 5},
        draw={"weights": _distributions, "source_ids": _ids(5)},
        permutable=("T", "S"),
    ),
    Mechanism(
        pointer_generator,
        oracle="copying::pointer_generator_is_the_equation",
        settings={"extra": 3},
        sizes={"V": 5, "X": 8},
        draw={
            "vocabulary": _distributions,
            "weights": _distributions,
            "source_ids": _ids(8),
            "generate": _probabilities,
        },
        permutable=("T", "S"),
        breaks=("empty",),
    ),
    Mechanism(
        generation_probability,
        oracle="copying::generation_probability_is_the_equation",
        sizes={"Dv": 3},
        permutable=("T", "Dv", "Dq", "D"),
    ),
    Mechanism(
        coverage_attention,
        oracle=_COVERAGE,
        sizes={"A": 17, "T": 5},
        draw={"coverage": _probabilities},
        permutable=("S", "A", "Dq", "Dk"),
        causal="T",
        breaks=("empty",),
        cached=_coverage,
    ),
    Mechanism(
        coverage_attention,
        "coverage_from_nothing",
        without="bias coverage",
        oracle=_COVERAGE,
        sizes={"A": 17, "T": 5},
        permutable=("S",),
        causal="T",
    ),
    Mechanism(
        coverage_loss,
        oracle=_COVERAGE,
        draw={"weights": _distributions, "coverage": _distributions},
        permutable=("T", "S"),
    ),
    Mechanism(
        convolutional_features,
        oracle=_CONVOLUTIONAL,
        settings={"window": 2},
        sizes={"D": 7, "W1": 5, "W2": 3, "K1": 11, "K": 19, "P": 14},
        permutable=("D", "K1", "K"),
        breaks=("empty",),
    ),
    Mechanism(
        convolutional_copy_attention,
        outputs=("B T D", "B T S", "B T S", "B T"),
        oracle=_CONVOLUTIONAL,
        sizes={"D": 7, "K": 19, "W": 3, "P": 15},
        permutable=("T", "D", "K"),
    ),
    *(
        Mechanism(
            copy_mixture_log_probability,
            f"copy_mixture_{name}",
            oracle="convolutional_copy::the_mixture_counts_both_ways_to_a_target",
            settings={"released": released},
            draw={
                "copy_probability": _probabilities,
                "copy_weights": _distributions,
                "copyable": _some_or_none,
                "vocabulary_log_probability": _log_probabilities,
            },
            permutable=("T", "S"),
        )
        for name, released in (("paper", False), ("released", True))
    ),
)

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
from tests.catalogue.mechanism import Empty, Mechanism

_HERE = "tests/kernels/test_copying.py::"
_CONVOLUTIONAL = "tests/kernels/test_convolutional_copy.py::"
_ATTENTION = _CONVOLUTIONAL + "test_attention_is_the_equations_snippet_by_snippet"
_MIXTURE = _CONVOLUTIONAL + "test_the_mixture_counts_both_ways_to_a_target"


def _distributions(random, shape):
    exponentials = np.exp(random.standard_normal(shape))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _probabilities(random, shape):
    return random.uniform(0.1, 0.9, shape)


def _log_probabilities(random, shape):
    return -random.uniform(0.5, 4.0, shape)


def _ids(high):
    """Tokens 0..high-1, each several times, and some that are none."""
    return lambda random, shape: random.integers(-1, high + 1, shape)


def _some_or_none(random, shape):
    found = random.random(shape) < 0.3
    found[:, ::2] = False
    return found


def _coverage(query, coverage, mask, **shared):
    """`coverage_attention` called with one query at a time, as a decoder does."""
    weights, before = [], []
    for t in range(query.shape[1]):
        now, covered = coverage_attention(query[:, t : t + 1], coverage=coverage, mask=mask, **shared)
        weights.append(now[:, 0])
        before.append(covered[:, 0])
        coverage = covered[:, 0] + now[:, 0]
    return jnp.stack(weights, 1), jnp.stack(before, 1)


MECHANISMS = (
    Mechanism(
        "copy_distribution",
        copy_distribution,
        {"weights": "B T S", "source_ids": "int B S", "mask": "bool B S"},
        ("B T V",),
        _HERE + "test_copy_distribution_adds_up_the_positions_of_each_token",
        settings={"vocabulary_size": 5},
        sizes={"V": 5},
        draw={"weights": _distributions, "source_ids": _ids(5)},
        permutable=("T", "S"),
        padding=("mask", "S"),
        empty=Empty("mask", np.s_[0], np.s_[0]),
        grows=("T", "S"),
    ),
    Mechanism(
        "pointer_generator",
        pointer_generator,
        {"vocabulary": "B T V", "weights": "B T S", "source_ids": "int B S", "generate": "B T", "mask": "bool B S"},
        ("B T X",),
        _HERE + "test_pointer_generator_is_the_equation",
        settings={"extra": 3},
        sizes={"V": 5, "X": 8},
        draw={
            "vocabulary": _distributions,
            "weights": _distributions,
            "source_ids": _ids(8),
            "generate": _probabilities,
        },
        permutable=("T", "S"),
        padding=("mask", "S"),
        grows=("T", "S"),
    ),
    Mechanism(
        "generation_probability",
        generation_probability,
        {
            "context": "B T Dv",
            "state": "B T Dq",
            "inputs": "B T D",
            "context_weight": "Dv",
            "state_weight": "Dq",
            "input_weight": "D",
            "bias": "",
        },
        ("B T",),
        _HERE + "test_generation_probability_is_the_equation",
        sizes={"Dv": 3},
        permutable=("T", "Dv", "Dq", "D"),
        grows=("T",),
    ),
    Mechanism(
        "coverage_attention",
        coverage_attention,
        {
            "query": "B T Dq",
            "keys": "B S Dk",
            "query_weight": "A Dq",
            "key_weight": "A Dk",
            "coverage_weight": "A",
            "v": "A",
            "bias": "A",
            "mask": "bool B S",
            "coverage": "B S",
        },
        ("B T S", "B T S"),
        _HERE + "test_coverage_attention_is_the_equation",
        sizes={"A": 17, "T": 5},
        draw={"coverage": _probabilities},
        permutable=("S", "A", "Dq", "Dk"),
        causal="T",
        padding=("mask", "S"),
        cached=_coverage,
        grows=("T", "S"),
    ),
    Mechanism(
        "coverage_from_nothing",
        coverage_attention,
        {
            "query": "B T Dq",
            "keys": "B S Dk",
            "query_weight": "A Dq",
            "key_weight": "A Dk",
            "coverage_weight": "A",
            "v": "A",
            "mask": "bool B S",
        },
        ("B T S", "B T S"),
        _HERE + "test_coverage_attention_is_the_equation",
        sizes={"A": 17, "T": 5},
        permutable=("S",),
        causal="T",
        padding=("mask", "S"),
        empty=Empty("mask", np.s_[0], np.s_[0]),
        grows=("T", "S"),
    ),
    Mechanism(
        "coverage_loss",
        coverage_loss,
        {"weights": "B T S", "coverage": "B T S"},
        ("B T",),
        _HERE + "test_coverage_attention_is_the_equation",
        draw={"weights": _distributions, "coverage": _distributions},
        permutable=("T", "S"),
        grows=("T", "S"),
    ),
    Mechanism(
        "convolutional_features",
        convolutional_features,
        {
            "embeddings": "B S D",
            "first_kernel": "W1 D K1",
            "first_bias": "K1",
            "second_kernel": "W2 K1 K",
            "second_bias": "K",
            "edge": "D",
            "mask": "bool B S",
        },
        ("B P K",),
        _ATTENTION,
        settings={"window": 2},
        sizes={"D": 7, "W1": 5, "W2": 3, "K1": 11, "K": 19, "P": 14},
        permutable=("D", "K1", "K"),
        padding=("mask", "S"),
        grows=("S",),
    ),
    Mechanism(
        "convolutional_copy_attention",
        convolutional_copy_attention,
        {
            "embeddings": "B S D",
            "features": "B P K",
            "state": "B T K",
            "attention_kernel": "W K",
            "copy_kernel": "W K",
            "meta_kernel": "W K",
            "meta_bias": "",
            "mask": "bool B S",
        },
        ("B T D", "B T S", "B T S", "B T"),
        _ATTENTION,
        sizes={"D": 7, "K": 19, "W": 3, "P": 15},
        permutable=("T", "D", "K"),
        padding=("mask", "S"),
        empty=Empty("mask", np.s_[0], np.s_[0]),
        grows=("T", "S"),
    ),
    *(
        Mechanism(
            f"copy_mixture_{name}",
            copy_mixture_log_probability,
            {
                "copy_probability": "B T",
                "copy_weights": "B T S",
                "copyable": "bool B T S",
                "vocabulary_log_probability": "B T",
                "unknown": "bool B T",
            },
            ("B T",),
            _MIXTURE,
            settings={"released": released},
            draw={
                "copy_probability": _probabilities,
                "copy_weights": _distributions,
                "copyable": _some_or_none,
                "vocabulary_log_probability": _log_probabilities,
            },
            permutable=("T", "S"),
            grows=("T", "S"),
        )
        for name, released in (("paper", False), ("released", True))
    ),
)

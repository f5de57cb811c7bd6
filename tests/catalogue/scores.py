"""Alignment scores of queries and keys, and the layer that attends by any of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from attention_research.kernels.scores import (
    additive_scores,
    attend,
    concat_scores,
    cosine_scores,
    dot_scores,
    general_scores,
    location_scores,
    location_weights,
    reduced_rank_scores,
    scaled_dot_scores,
)
from tests.catalogue.mechanism import Mechanism

_score = partial(
    Mechanism,
    sizes={"A": 31, "C": 26, "L": 17},
    permutable=("T", "S"),
    oracle="scores::scores_are_the_equations",
)
_located = partial(_score, settings={"key_length": 13}, permutable=("T",))
_attend = partial(
    Mechanism,
    attend,
    permutable=("T", "S"),
    oracle="scores::attend_is_the_softmax_of_what_is_visible_times_the_values",
)

MECHANISMS = (
    _score(dot_scores),
    _score(scaled_dot_scores),
    _score(general_scores),
    _score(reduced_rank_scores),
    _score(additive_scores),
    _score(additive_scores, "additive_scores_in_chunks", settings={"chunk_size": 3}),
    _score(concat_scores),
    _score(cosine_scores, draw={"temperature": lambda random, shape: random.uniform(0.3, 0.7, shape)}),
    _located(location_scores),
    _located(location_weights),
    _attend(),
    _attend("attend_by_pairs", {"mask": "bool B T S"}, empty=np.s_[0, 2:5]),
)

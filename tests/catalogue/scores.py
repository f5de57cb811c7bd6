"""Alignment scores of queries and keys, and the layer that attends by any of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from attention_research.kernels import additive_scores, attend, dot_scores, general_scores, reduced_rank_scores
from attention_research.kernels.scores import (
    concat_scores,
    cosine_scores,
    location_scores,
    location_weights,
    scaled_dot_scores,
)
from tests.catalogue.mechanism import Empty, Mechanism

_FILE = "tests/kernels/test_scores.py"
_score = partial(
    Mechanism,
    outputs=("B T S",),
    sizes={"A": 31, "C": 26, "L": 17},
    permutable=("T", "S"),
    oracle=f"{_FILE}::test_scores_are_the_equations",
    grows=("T", "S"),
)
_EQUAL = {"query": "B T D", "keys": "B S D"}
_OWN = {"query": "B T Dq", "keys": "B S Dk"}
_ADDITIVE = {**_OWN, "query_weight": "A Dq", "key_weight": "A Dk", "v": "A"}
_attend = partial(
    Mechanism,
    function=attend,
    outputs=("B T Dv", "B T S"),
    permutable=("T", "S"),
    padding=("mask", "S"),
    oracle=f"{_FILE}::test_attend_is_the_softmax_of_what_is_visible_times_the_values",
    grows=("T", "S"),
)

MECHANISMS = (
    _score("dot_scores", dot_scores, _EQUAL),
    _score("scaled_dot_scores", scaled_dot_scores, _EQUAL),
    _score("general_scores", general_scores, {**_OWN, "weight": "Dq Dk"}),
    _score("reduced_rank_scores", reduced_rank_scores, {**_OWN, "query_factor": "R Dq", "key_factor": "R Dk"}),
    _score("additive_scores", additive_scores, _ADDITIVE),
    _score("additive_scores_in_chunks", additive_scores, _ADDITIVE, settings={"chunk_size": 3}),
    _score("concat_scores", concat_scores, {**_OWN, "weight": "A C", "v": "A"}),
    _score(
        "cosine_scores",
        cosine_scores,
        {**_EQUAL, "temperature": ""},
        draw={"temperature": lambda random, shape: random.uniform(0.3, 0.7, shape)},
    ),
    _score(
        "location_scores",
        location_scores,
        {"query": "B T Dq", "weight": "L Dq"},
        settings={"key_length": 13},
        permutable=("T",),
        grows=("T",),
    ),
    _score(
        "location_weights",
        location_weights,
        {"query": "B T Dq", "weight": "L Dq"},
        settings={"key_length": 13},
        permutable=("T",),
        grows=("T",),
    ),
    _attend(
        "attend",
        inputs={"scores": "B T S", "values": "B S Dv", "mask": "bool B S"},
        empty=Empty("mask", np.s_[0], np.s_[0]),
    ),
    _attend(
        "attend_by_pairs",
        inputs={"scores": "B T S", "values": "B S Dv", "mask": "bool B T S"},
        empty=Empty("mask", np.s_[0, 2:5], np.s_[0, 2:5]),
    ),
)

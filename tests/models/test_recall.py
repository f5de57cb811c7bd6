"""Every causal kind of attention learns to recall, in seconds; kinds that do not compare contents do not."""

import pytest

from attention_research.registry import FAMILIES
from tests.models.recall import CHANCE, accuracy

#: Logits without a scale learn recall with narrow heads and more steps.
NARROW = {"steps": 700, "learning_rate": 3e-3, "num_heads": 8}
#: Kind -> (settings of its section, arguments of `recall.accuracy`).
LEARN = {
    "standard": ({}, {}),
    "unscaled": ({}, NARROW),
    "relative": ({"max_distance": 4}, {}),
    "relative_keys": ({"max_distance": 4}, {}),
    "relative_values": ({"max_distance": 4}, {}),
    "t5": ({"num_buckets": 16, "max_distance": 32}, NARROW),
    "t5_scaled": ({"num_buckets": 16, "max_distance": 32}, {}),
    "alibi": ({}, {}),
    "rotary": ({}, {}),
    "positional": ({}, {"steps": 500}),
    "ring": ({}, {}),
    "dense_synthesizer_plus": ({}, NARROW),
    "dense_synthesizer_plus_alpha": ({}, {**NARROW, "steps": 400}),
    "random_synthesizer_plus": ({}, NARROW),
    "random_synthesizer_plus_alpha": ({}, {**NARROW, "steps": 400}),
}
#: Kinds whose weights do not depend on the contents of two positions: they learn more than guessing, but not recall.
CONTENT_FREE = {
    "lightweight_convolution": ({}, {}),
    "dynamic_convolution": ({}, {}),
    "dense_synthesizer": ({}, {}),
    "factorized_synthesizer": ({}, {}),
    "low_rank_synthesizer": ({}, {}),
    "random_synthesizer": ({}, {}),
}
#: Kinds for which this is not a test -> the reason.
NOT_TESTED = {
    "unmasked": "it reads the answers",
    "branched": "the heads have a feed-forward in common, with which recall takes minutes to learn",
    "branched_t5": "the heads have a feed-forward in common, with which recall takes minutes to learn",
}


@pytest.mark.slow
def test_every_causal_kind_is_in_one_of_the_tables():
    assert sorted([*LEARN, *CONTENT_FREE, *NOT_TESTED]) == sorted(FAMILIES["causal_attention"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARN)
def test_a_kind_learns_recall(kind):
    settings, given = LEARN[kind]
    assert accuracy({"kind": kind, **settings}, **given) > 3 * CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTENT_FREE)
def test_a_kind_that_does_not_compare_contents_does_not(kind):
    settings, given = CONTENT_FREE[kind]
    assert CHANCE < accuracy({"kind": kind, **settings}, **given) < 2.5 * CHANCE

"""Every causal kind of attention learns to recall, in seconds; kinds that do not compare contents do not."""

import pytest

from attention_research.registry import FAMILIES
from tests.models.recall import CHANCE, accuracy
from tests.tiers import slow_are

#: Logits without a scale learn recall with narrow heads and more steps.
NARROW = {"steps": 700, "learning_rate": 3e-3, "num_heads": 8}
#: Kind -> (settings of its section, arguments of `recall.accuracy`).
LEARN = {
    "standard": ({}, {}),
    "unscaled": ({}, {**NARROW, "steps": 1500}),
    "relative": ({"max_distance": 4}, {}),
    "relative_keys": ({"max_distance": 4}, {}),
    "relative_values": ({"max_distance": 4}, {}),
    "relative_bias": ({"max_distance": 4}, {"steps": 500}),
    "relative_keys_bias": ({"max_distance": 4}, {}),
    "t5": ({"num_buckets": 16, "max_distance": 32}, NARROW),
    "t5_scaled": ({"num_buckets": 16, "max_distance": 32}, {}),
    "alibi": ({}, {}),
    "rotary": ({}, {}),
    "scaled_rotary": ({"factor": 2.0, "original_length": 12}, {}),
    "positional": ({}, {"steps": 500}),
    "transformer_xl": ({}, {}),
    "transformer_xl_memory": ({"segment_length": 8}, {}),
    "kerple": ({}, {"steps": 500}),
    "fire": ({}, {}),
    "contextual": ({}, {}),
    "xpos": ({}, {}),
    "position_scaled": ({}, {}),
    "ring": ({}, {}),
    # Around the softmax.
    "sink": ({}, {}),
    "softcap": ({"cap": 30.0}, {}),
    "entmax15": ({}, NARROW),
    "entmax": ({}, NARROW),
    "query_key_l2": ({"typical_length": 24}, {}),
    "temperature": ({}, {}),
    "length_scaled": ({}, {}),
    "differential": ({}, {}),
    "gated": ({}, {}),
    "gated_rotary": ({}, {}),
    "talking_heads": ({}, {}),
    "exclusive": ({}, {}),
    "stick_breaking": ({}, {}),
    "forgetting_pro": ({}, {}),
    "forgetting": ({}, {"steps": 1000}),
    "path": ({}, {}),
    "multi_token": ({}, {}),
    "selective": ({}, {}),
    "latent": ({"latent_width": 32, "rotary_width": 8}, {}),
    # A choice of keys.
    "sliding_window": ({"window": 24}, {}),
    "sliding_window_rotary": ({"window": 24}, {}),
    "streaming": ({"window": 24}, {}),
    "block_local": ({"block_size": 24}, {}),
    "sinkhorn": ({"block_size": 6}, {"steps": 500}),
    "moba": ({}, {}),
    "native_sparse": ({}, {}),
    "indexed": ({"top_k": 8}, {}),
    # A state of constant size. Without the delta rule, a convolution tells the keys which token is before them.
    "retnet": ({"convolution_width": 4}, {}),
    "gla": ({"convolution_width": 4}, {}),
    "lightning": ({"convolution_width": 4}, {}),
    "mlstm": ({"convolution_width": 4}, {}),
    "based": ({"convolution_width": 4}, {}),
    "linear": ({"convolution_width": 4}, {}),
    "performer": ({"convolution_width": 4}, {}),
    "mamba": ({}, {"steps": 1000}),
    "mamba2": ({}, {}),
    "deltanet": ({}, {}),
    "gated_deltanet": ({}, {}),
    "kda": ({}, {}),
    "rwkv7": ({}, {}),
    "log_linear": ({"key_head_width": 32}, {}),
    # Gates around a long convolution, without dot products.
    "hyena": ({}, {"steps": 1000}),
    # Layers that depend on each other.
    "interleaved": ({"first": {"kind": "retnet"}, "last": {"kind": "standard"}, "interval": 2}, {"steps": 600}),
    "value_residual": ({}, {}),
    "cross_layer": ({}, {"num_layers": 4, "steps": 400}),
    "yoco": ({}, {}),
    # Learned weights in addition to dot products.
    "dense_synthesizer_plus": ({}, NARROW),
    "dense_synthesizer_plus_alpha": ({}, {**NARROW, "steps": 400}),
    "random_synthesizer_plus": ({}, NARROW),
    "random_synthesizer_plus_alpha": ({}, {**NARROW, "steps": 400}),
}
#: Kinds that need more steps for four pairs learn two pairs, of which `CONTENT_FREE` kinds answer at most 0.85.
LEARN_TWO = {
    "sigmoid": ({}, {**NARROW, "pairs": 2}),
    "sparsemax": ({}, {**NARROW, "pairs": 2}),
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
    "tensor_product": "with its released start, it gives 0.6 of the answers after 1,500 steps, and 0.8 of two pairs",
    "branched": "the heads have a feed-forward in common, with which recall takes minutes to learn",
    "branched_t5": "the heads have a feed-forward in common, with which recall takes minutes to learn",
}


#: The slow tests train dot products, a choice of keys, a state, and filters that do not recall. The others take 15 s
#: each and are long tests.
SLOW = ("standard", "moba", "gated_deltanet", "dynamic_convolution")


def test_every_causal_kind_is_in_one_of_the_tables():
    assert sorted([*LEARN, *LEARN_TWO, *CONTENT_FREE, *NOT_TESTED]) == sorted(FAMILIES["causal_attention"])


@pytest.mark.parametrize("kind", slow_are({*SLOW} & LEARN.keys(), [*LEARN]))
def test_a_kind_learns_recall(kind):
    settings, given = LEARN[kind]
    assert accuracy({"kind": kind, **settings}, **given) > 3 * CHANCE


@pytest.mark.parametrize("kind", slow_are({*SLOW} & LEARN_TWO.keys(), [*LEARN_TWO]))
def test_a_kind_learns_recall_of_two_pairs(kind):
    settings, given = LEARN_TWO[kind]
    assert accuracy({"kind": kind, **settings}, **given) > 0.95


@pytest.mark.parametrize("kind", slow_are({*SLOW} & CONTENT_FREE.keys(), [*CONTENT_FREE]))
def test_a_kind_that_does_not_compare_contents_does_not(kind):
    settings, given = CONTENT_FREE[kind]
    assert CHANCE < accuracy({"kind": kind, **settings}, **given) < 2.5 * CHANCE

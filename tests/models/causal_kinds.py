"""Settings of every kind of causal self-attention for small decoder-only models. A new kind needs a line here."""

from tests.layers.state_kinds import STATE_KINDS

_BUCKETS = {"num_buckets": 8, "max_distance": 9}

#: Kind -> its settings; a test id is the key. "kind:name" is another setting of the same kind.
CAUSAL_KINDS = {
    "standard": {},
    "standard:grouped": {"num_key_value_heads": 1},
    "unscaled": {},
    "relative": {"max_distance": 3},
    "relative_keys": {"max_distance": 3},
    "relative_values": {"max_distance": 3},
    "t5": _BUCKETS,
    "t5_scaled": _BUCKETS,
    "alibi": {},
    "rotary": {},
    "positional": {},
    "ring": {},
    "branched": {},
    "branched_t5": _BUCKETS,
    "lightweight_convolution": {"kernel_width": 4},
    "dynamic_convolution": {"kernel_width": 4, "num_filters": 3},
    "standard:normalized": {"query_key_norm": "layer"},
    "rotary:normalized": {"query_key_norm": "rms", "num_key_value_heads": 1},
    "sink": {},
    "softcap": {"cap": 1.5},
    "sigmoid": {},
    "sigmoid:learned": {"learned_bias": True},
    "query_key_l2": {"typical_length": 5},
    "temperature": {},
    "differential": {},
    "latent": {"latent_width": 5, "rotary_width": 2},
    "latent:queries": {"latent_width": 5, "rotary_width": 2, "query_latent_width": 7, "value_head_width": 3},
    "sliding_window": {"window": 3},
    "sliding_window:wide": {"window": 20},
    "sliding_window_rotary": {"window": 3},
    "streaming": {"num_sinks": 2, "window": 3},
    "block_local": {"block_size": 4},
    "sinkhorn": {"block_size": 3, "iterations": 3},
    "transformer_xl": {},
    "interleaved:windows": {"interval": 2, "first": {"kind": "sliding_window", "window": 2}, "last": {"kind": "sink"}},
    "interleaved:states": {"interval": 3, "first": {"kind": "gla"}, "last": {"kind": "rotary"}},
    "interleaved": {"interval": 3, "first": {"kind": "rotary"}, "last": {"kind": "standard"}},
    "value_residual": {},
    "cross_layer": {"interval": 2},
    "yoco": {"lower": {"kind": "alibi"}},
    "sparsemax": {},
    "entmax15": {},
    "entmax": {},
    "talking_heads": {},
    "length_scaled": {},
    "position_scaled": {"interval": 2, "strength": 0.5},
    "exclusive": {},
    "tensor_product": {"query_rank": 3, "rank": 2},
    "kerple": {},
    "kerple:power": {"form": "power"},
    "scaled_rotary": {"factor": 4.0, "original_length": 5},
    "stick_breaking": {},
    "stick_breaking:current": {"attend_current": True},
    "forgetting": {},
    "forgetting_pro": {},
    "fire": {"bias_width": 5, "threshold": 2.5},
    "contextual": {"num_positions": 3},
    "xpos": {"scale_base": 7.0},
    "path": {"direction_rank": 5},
    "path:forgetting": {"direction_rank": 5, "forgets": True},
    "multi_token:twice": {"query_taps": 3, "key_taps": 3, "convolve_weights": True},
    "multi_token": {"query_taps": 3, "key_taps": 4, "head_group": 3},
    "selective": {},
    "moba": {"block_size": 2, "top_k": 2},
    "native_sparse": {"block_size": 2, "num_blocks": 2, "window": 1},
    "indexed": {"top_k": 3, "num_index_heads": 2, "index_width": 5},
    **STATE_KINDS,
    **{
        kind: _BUCKETS
        for kind in (
            "dense_synthesizer", "dense_synthesizer_plus", "dense_synthesizer_plus_alpha", "factorized_synthesizer",
            "low_rank_synthesizer", "random_synthesizer", "random_synthesizer_plus", "random_synthesizer_plus_alpha",
        )
    },
}  # fmt: skip
#: Kinds that are not causal (the ablation `unmasked`).
NOT_CAUSAL = ("unmasked",)
#: Kinds that count positions in the row and not in the example, or that take no packed rows, with the reason.
NOT_PACKED = {
    "positional": "positions count within the row",
    "streaming": "sinks are the first tokens of a row",
    "block_local": "blocks are counted within the row",
    "sinkhorn": "blocks are counted within the row",
    "ring": "it takes only masks of non-padding keys",
    **dict.fromkeys(
        ("dense_synthesizer", "factorized_synthesizer", "low_rank_synthesizer", "random_synthesizer",
         "dense_synthesizer_plus", "dense_synthesizer_plus_alpha", "random_synthesizer_plus",
         "random_synthesizer_plus_alpha"), "its tables are indexed by the position in the row"),
}  # fmt: skip

"""Values away from the defaults for every setting of every kind of attention that decodes.

A round takes one value of each setting, so that all settings of a kind differ from their defaults at once: windows and
blocks shorter than the text in round 0, the smallest possible in round 1, longer than the text in round 2. A setting
that is not in `VALUES` is an error, so that a new one needs a line here.
"""

from __future__ import annotations

from typing import Any

from attention_research.config import schema
from attention_research.registry import CAUSAL

ROUNDS = (0, 1, 2)
#: The sizes of each round's model: width, heads and the width of a head, which is never width / heads.
SIZES = (
    {"width": 12, "num_heads": 4, "head_width": 6},
    {"width": 8, "num_heads": 4, "head_width": 4},
    {"width": 20, "num_heads": 2, "head_width": 2},
)
#: Settings that the model's section has.
OF_THE_MODEL = ("width", "num_heads", "head_width", "num_layers", "max_length")

#: Setting -> its value in each round. A setting that is True or False gets the opposite of its default.
VALUES: dict[str, tuple] = {
    "value_head_width": (5, 7, 3),
    "num_key_value_heads": (2, 1, 1),
    "query_key_norm": ("rms", "layer", "rms"),
    "implementation": ("blockwise", "reference", "reference"),
    "base": (7.0, 100.0, 2.0),
    # Positions by distance.
    "max_distance": (5, 3, 40),
    "num_buckets": (7, 2, 12),
    "form": ("power",) * 3,
    "method": ("linear", "ntk", "llama3"),
    "factor": (3.0, 1.5, 8.0),
    "original_length": (5, 3, 40),
    "scale_base": (3.0, 9.0, 40.0),
    "bias_width": (3, 1, 5),
    "threshold": (1.5, 0.5, 40.0),
    "num_positions": (2, 1, 40),
    "rotary_width": (2, 4, 8),
    # Windows, blocks and segments.
    "window": (2, 0, 40),
    "num_sinks": (1, 0, 40),
    "block_size": (3, 1, 40),
    "segment_length": (3, 1, 40),
    "memory_length": (4, 0, 2),
    "num_blocks": (2, 1, 40),
    "top_k": (2, 1, 40),
    "interval": (3, 1, 3),
    "iterations": (3, 1, 9),
    # Logits, gates and factors.
    "cap": (0.5, 3.0, 20.0),
    "strength": (0.7, 2.0, 0.3),
    "typical_length": (3, 2, 40),
    "gate_by": ("head",) * 3,
    "initial_bias": (3.0, -1.0, 0.5),
    "latent_width": (5, 1, 9),
    "query_latent_width": (3, 1, 7),
    "query_rank": (3, 1, 7),
    "rank": (3, 1, 5),
    "direction_rank": (3, 1, 5),
    "query_taps": (2, 1, 40),
    "key_taps": (4, 1, 40),
    "head_group": (4, 2, 2),
    "num_index_heads": (3, 1, 2),
    "index_width": (5, 4, 7),
    "index_weight": (0.5, 0.0, 2.0),
    "index_rotary_width": (2, 4, 6),
    # Convolutions and states.
    "kernel_width": (3, 1, 40),
    "num_filters": (4, 1, 5),
    "convolution_width": (2, 1, 40),
    "order": (3, 4, 5),
    "place_width": (5, 7, 9),
    "filter_width": (5, 1, 9),
    "frequency": (2.0, 0.5, 5.0),
    "key_head_width": (4, 8, 2),
    "num_groups": (2, 4, 2),
    "decay_rank": (3, 1, 5),
    "decay_temperature": (2.0, 1.0, 30.0),
    "state_width": (3, 1, 5),
    "expand": (3, 1, 4),
    "step_rank": (3, 2, 5),
    "gate_rank": (3, 1, 5),
    "value_rank": (3, 1, 5),
    "num_features": (3, 1, 9),
    # Linformer.
    "cell_width": (3, 1, 40),
    "pooling": ("max",) * 3,
    "sharing": ("none", "key_value", "layerwise"),
}
_FEED_FORWARD = {"feed_forward": ({"kind": "dense", "hidden_width": 7},) * 3}
_NO_DIVISORS = {"short_divisors": ((),) * 3, "long_divisors": ((),) * 3}
#: Kind -> values that differ from those above.
OF_KIND: dict[str, dict[str, tuple]] = {
    "branched": _FEED_FORWARD,
    "branched_t5": _FEED_FORWARD,
    "scaled_rotary": _NO_DIVISORS,
    "temperature": {"masks_diagonal": (False,) * 3},
    "interleaved": {
        "first": ({"kind": "sliding_window", "window": 2}, "gla", "value_residual"),
        "last": ({"kind": "latent", "latent_width": 3, "rotary_width": 2}, "sink", {"kind": "streaming", "window": 3}),
    },
    "yoco": {"lower": ({"kind": "streaming", "num_sinks": 1, "window": 2}, "mamba", "cross_layer")},
}
#: Settings whose only value here is the default: no decoder may have another one, or only a method that `MORE` names.
AT_DEFAULT = ("masks_diagonal", "short_divisors", "long_divisors")
_LONGER = {"factor": 3.0, "original_length": 5}
#: "kind:name" -> further settings that exclude one another, or that the values above leave out.
MORE: dict[str, dict[str, Any]] = {
    "scaled_rotary:yarn": _LONGER,
    "scaled_rotary:dynamic": {**_LONGER, "method": "dynamic"},
    "scaled_rotary:longrope": {
        **_LONGER, "method": "longrope", "short_divisors": (1.0, 1.5, 2.0), "long_divisors": (1.0, 3.0, 9.0),
    },
    "standard:xla": {"implementation": "xla", "num_key_value_heads": 2},
    "gated:elements": {"gate_by": "element", "num_key_value_heads": 2, "value_head_width": 5},
    "streaming:sinks": {"num_sinks": 5, "window": 1, "num_key_value_heads": 2},
    "transformer_xl_memory:long": {"segment_length": 2, "memory_length": 7},
    "transformer_xl_memory:none": {"segment_length": 5, "memory_length": 0},
    "block_local:long": {"block_size": 7},
    "sinkhorn:long": {"block_size": 7, "num_key_value_heads": 1},
    "mamba2:one": {"num_groups": 4, "key_head_width": 3},
    "rwkv7:values": {"value_head_width": 5, "key_head_width": 3},
    "gated_deltanet:heads": {"num_heads": 3, "key_head_width": 3, "value_head_width": 5},
    "multi_token:wide": {"query_taps": 7, "key_taps": 3, "convolve_weights": True},
    "value_residual:one": {"num_key_value_heads": 1, "value_head_width": 5},
}  # fmt: skip


def unusual(family: str, kind: str, number: int) -> dict[str, Any]:
    """The settings of a kind in a round: all that its signature has and the model's section has not."""
    found, own = {}, OF_KIND.get(kind, {})
    for name, setting in schema.signature(family, kind).items():
        if name in own:
            found[name] = own[name][number]
        elif isinstance(setting.default, bool):
            found[name] = not setting.default
        elif name not in OF_THE_MODEL:
            found[name] = VALUES[name][number]
    return {"kind": kind, **found}


def of_case(name: str, family: str = CAUSAL) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the sizes of the model, the settings of the attention) of "kind-round" or of a key of `MORE`."""
    if name in MORE:
        return SIZES[0], {"kind": name.split(":")[0], **MORE[name]}
    kind, number = name.rsplit("-", 1)
    return SIZES[int(number)], unusual(family, kind, int(number))

"""The nine mechanisms and the five tasks of `lra2020/table1`, as overrides of configs/classification/long_range.py."""

from __future__ import annotations

from typing import Any

from attention_research.config import load

CONFIG = "configs/classification/long_range.py"
TASKS = {"listops": "ListOps", "text": "Text", "retrieval": "Retrieval", "image": "Image", "pathfinder": "Pathfinder"}
MECHANISMS = {
    "standard": "Transformer",
    "linformer": "Linformer",
    "performer": "Performer",
    "block_local": "local (blocks)",
    "bigbird": "BigBird",
    "linear": "linear",
    "reformer": "Reformer",
    "sinkhorn": "Sinkhorn",
    "dot_synthesizer": "Synthesizer",
}
#: The defaults of the arena's code. Its Reformer cuts any length into ten chunks, which is left out here. The
#: Transformer writes its scores to memory, as was usual in 2020. Linformer shares one projection for keys and values.
RELEASED: dict[str, dict[str, Any]] = {
    "standard": {"implementation": "reference"},
    "linformer": {"rank": 16, "sharing": "key_value"},
    "performer": {"num_features": 256},
    "block_local": {"block_size": 50},
    "bigbird": {"block_size": 64, "random_blocks": 3},
    "linear": {},
    "reformer": {"chunk_size": 64, "half_buckets": 16},
    "sinkhorn": {"block_size": 50},
    "dot_synthesizer": {},
}
#: For sequences of 128 to 289 tokens: blocks of 16, and 32 positions or features where a mechanism has a fixed number.
SHORT: dict[str, dict[str, Any]] = {
    **RELEASED,
    "linformer": {"rank": 32, "sharing": "key_value"},
    "performer": {"num_features": 32},
    "block_local": {"block_size": 16},
    "bigbird": {"block_size": 16, "global_blocks": 1, "random_blocks": 2},
    "reformer": {"chunk_size": 16, "half_buckets": 4},
    "sinkhorn": {"block_size": 16},
}
#: For the 32 tokens of the smoke test.
TINY: dict[str, dict[str, Any]] = {**SHORT, "linformer": {"rank": 8, "sharing": "key_value"}}


def variant(name: str, mechanism: str, settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The sections of a variant of the config file, with a mechanism in its encoder."""
    given = load(f"{CONFIG}:{name}", []).given
    attention = {"kind": mechanism, "use_bias": False, **settings[mechanism]}
    return {**given, "model": {**given["model"], "self_attention": attention}}

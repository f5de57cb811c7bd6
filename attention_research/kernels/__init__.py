"""Pure functions on arrays. They have no parameters and do not use Flax.

This package exports dot-product attention, the most common score functions, masks, and the functions of its top-level
modules. Other functions are in the namespaces `kernels.scores`, `kernels.selection`, `kernels.copying`,
`kernels.positions`, `kernels.efficient`, `kernels.no_dot_product`, `kernels.vision`, `kernels.variants`,
`kernels.recurrent`, `kernels.state` and `kernels.sets`. The names of all namespaces are also available here:
`kernels.lsh_attention` is `kernels.efficient.lsh_attention`.

>>> from attention_research import kernels
>>> kernels.lsh_attention is kernels.efficient.lsh_attention
True

The code of this repository imports these names from their namespaces, which show the defining module.
"""

import importlib
from collections.abc import Callable
from typing import Any

from attention_research.kernels.attention import (
    Choice,
    attention_weights,
    dot_product_attention,
    explain_implementation,
    ring_attention,
)
from attention_research.kernels.copying import copy_distribution
from attention_research.kernels.cross_entropy import chunked_log_likelihood
from attention_research.kernels.efficient import (
    bigbird_attention,
    block_local_attention,
    linear_attention,
    linformer_attention,
    performer_attention,
    sliding_window_attention,
)
from attention_research.kernels.experts import Routing, switch_routing, top_2_routing
from attention_research.kernels.masks import causal_mask, combine_masks, padding_mask, segment_mask, window_mask
from attention_research.kernels.no_dot_product import (
    dense_synthesizer_attention,
    dense_synthesizer_scores,
    dynamic_convolution,
    factorized_dense_scores,
    factorized_dense_synthesizer_attention,
    factorized_random_scores,
    factorized_random_synthesizer_attention,
    lightweight_convolution,
    synthesizer_attention,
)
from attention_research.kernels.normalization import layer_norm
from attention_research.kernels.positions import (
    alibi_bias,
    relative_attention,
    rotary,
    sinusoidal_positions,
    t5_relative_bias,
    transformer_xl_attention,
)
from attention_research.kernels.product_keys import product_key_search
from attention_research.kernels.projection import project
from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.scores import (
    additive_scores,
    attend,
    dot_scores,
    general_scores,
    reduced_rank_scores,
)
from attention_research.kernels.selection import (
    hard_attention,
    hard_monotonic_decode,
    latent_monotonic,
    local_weights,
    mocha_weights,
    monotonic_alignment,
)
from attention_research.kernels.sequence_convolution import sequence_convolution
from attention_research.kernels.vision import channel_attention, spatial_attention

NAMESPACES = (
    "attention", "copying", "efficient", "no_dot_product", "positions", "recurrent", "scores", "selection", "sets",
    "state", "variants", "vision",
)  # fmt: skip


def _named(namespace: str) -> dict[str, Callable[..., Any]]:
    """The public functions and classes of a namespace, by name."""
    named = vars(importlib.import_module(f"{__name__}.{namespace}"))
    return {name: value for name, value in named.items() if callable(value) and not name.startswith("_")}


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name not in NAMESPACES:
        for namespace in NAMESPACES:
            if name in (named := _named(namespace)):
                return named[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for namespace in NAMESPACES for name in _named(namespace))})

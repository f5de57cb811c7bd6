"""Pure functions on arrays: arrays in, arrays out, no parameters, no Flax."""

from attention_research.kernels.attention import (
    Choice,
    attention_weights,
    dot_product_attention,
    explain_implementation,
)
from attention_research.kernels.cross_entropy import chunked_log_likelihood
from attention_research.kernels.linformer import compress, linformer_attention
from attention_research.kernels.masks import causal_mask, combine_masks, padding_mask, segment_mask, window_mask
from attention_research.kernels.normalization import layer_norm
from attention_research.kernels.positions import sinusoidal_positions
from attention_research.kernels.projection import project
from attention_research.kernels.relative import relative_attention, relative_weights
from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.t5_bias import t5_buckets, t5_relative_bias

__all__ = [
    "Choice",
    "attention_weights",
    "causal_mask",
    "chunked_log_likelihood",
    "combine_masks",
    "compress",
    "dot_product_attention",
    "explain_implementation",
    "layer_norm",
    "linformer_attention",
    "padding_mask",
    "project",
    "relative_attention",
    "relative_weights",
    "rms_norm",
    "segment_mask",
    "sinusoidal_positions",
    "t5_buckets",
    "t5_relative_bias",
    "window_mask",
]

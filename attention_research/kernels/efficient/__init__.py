"""Attention mechanisms with less than quadratic cost in the length. One mechanism per file."""

from attention_research.kernels.efficient.bigbird import bigbird_attention, bigbird_random_blocks
from attention_research.kernels.efficient.block_local import block_local_attention, block_local_cache, block_local_step
from attention_research.kernels.efficient.feature_attention import FeatureSums, no_sums
from attention_research.kernels.efficient.linear import elu_features, linear_attention, linear_attention_step
from attention_research.kernels.efficient.linformer import compress, linformer_attention
from attention_research.kernels.efficient.linformer_convolution import convolved_linformer_attention
from attention_research.kernels.efficient.linformer_pooling import pooled_linformer_attention
from attention_research.kernels.efficient.performer import (
    orthogonal_features,
    performer_attention,
    performer_attention_step,
    positive_features,
)
from attention_research.kernels.efficient.reformer import lsh_attention, lsh_buckets
from attention_research.kernels.efficient.reversible import reversible_layers
from attention_research.kernels.efficient.sinkhorn import block_summaries, sinkhorn, sinkhorn_attention
from attention_research.kernels.efficient.sliding_window import (
    sliding_window_attention,
    sliding_window_cache,
    sliding_window_step,
)

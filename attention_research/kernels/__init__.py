"""Pure functions on arrays: arrays in, arrays out, no parameters, no Flax."""

from attention_research.kernels.attention import (
    Choice,
    attention_weights,
    dot_product_attention,
    explain_implementation,
    ring_attention,
)
from attention_research.kernels.copying import (
    CopyAttention,
    convolutional_copy_attention,
    convolutional_features,
    copy_distribution,
    copy_mixture_log_probability,
    coverage_attention,
    coverage_loss,
    coverage_vectors,
    generation_probability,
    pointer_generator,
)
from attention_research.kernels.cross_entropy import chunked_log_likelihood
from attention_research.kernels.efficient.bigbird import bigbird_attention, bigbird_random_blocks
from attention_research.kernels.efficient.block_local import block_local_attention, block_local_cache, block_local_step
from attention_research.kernels.efficient.feature_attention import FeatureSums, no_sums
from attention_research.kernels.efficient.linear import elu_features, linear_attention, linear_attention_step
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
from attention_research.kernels.experts import Routing, switch_routing, top_2_routing
from attention_research.kernels.linformer import compress, linformer_attention
from attention_research.kernels.masks import causal_mask, combine_masks, padding_mask, segment_mask, window_mask
from attention_research.kernels.no_dot_product.dense_synthesizer import (
    dense_synthesizer_attention,
    dense_synthesizer_scores,
    released_dense_synthesizer_attention,
    released_dense_synthesizer_scores,
)
from attention_research.kernels.no_dot_product.dynamic_convolution import (
    dynamic_convolution,
    dynamic_convolution_step,
)
from attention_research.kernels.no_dot_product.factorized_dense_synthesizer import (
    factorized_dense_scores,
    factorized_dense_synthesizer_attention,
)
from attention_research.kernels.no_dot_product.factorized_random_synthesizer import (
    factorized_random_scores,
    factorized_random_synthesizer_attention,
    released_factorized_random_scores,
)
from attention_research.kernels.no_dot_product.lightweight_convolution import (
    lightweight_convolution,
    lightweight_convolution_step,
)
from attention_research.kernels.no_dot_product.mixture_synthesizer import (
    mixture_scores,
    mixture_synthesizer_attention,
)
from attention_research.kernels.no_dot_product.synthesizer import synthesizer_attention
from attention_research.kernels.normalization import layer_norm
from attention_research.kernels.positions import (
    add_positions,
    alibi_bias,
    alibi_distance_bias,
    alibi_slopes,
    concatenate_positions,
    extend_with_memory,
    learned_positions,
    next_memory,
    no_positions,
    positional_attention,
    project_concatenated,
    rotary,
    sinusoidal_at,
    sinusoidal_positions,
    structural_attention,
    structural_depths,
    structural_distances,
    structural_encoding,
    transformer_xl_attention,
    transformer_xl_weights,
)
from attention_research.kernels.product_keys import product_key_search
from attention_research.kernels.projection import project
from attention_research.kernels.recurrent import (
    gru_cell,
    gru_reset_before_cell,
    lstm_cell,
    recurrence,
    vanilla_cell,
)
from attention_research.kernels.relative import relative_attention, relative_weights
from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.scores import (
    additive_scores,
    attend,
    concat_scores,
    cosine_scores,
    dot_scores,
    general_scores,
    location_scores,
    location_weights,
    projected_additive_scores,
    reduced_rank_scores,
    scaled_dot_scores,
)
from attention_research.kernels.selection import (
    attention_entropy,
    choosing_probability,
    cost_to_go,
    gumbel_attention,
    gumbel_softmax,
    hard_attention,
    hard_monotonic_decode,
    local_weights,
    local_window,
    mocha_weights,
    monotonic_alignment,
    monotonic_energy,
    moving_average_baseline,
    predicted_centers,
    reinforce_surrogate,
    semi_sampled_attention,
)
from attention_research.kernels.sequence_convolution import sequence_convolution
from attention_research.kernels.t5_bias import t5_buckets, t5_distance_bias, t5_relative_bias
from attention_research.kernels.variants.differential import (
    differential_attention,
    differential_lambda,
    differential_lambda_init,
)
from attention_research.kernels.variants.grouped_query import grouped_query_attention, pool_heads
from attention_research.kernels.variants.latent import absorbed_latent_attention, latent_attention
from attention_research.kernels.variants.query_key_l2 import query_key_l2_attention
from attention_research.kernels.variants.query_key_norm import query_key_norm_attention
from attention_research.kernels.variants.sigmoid import sigmoid_attention
from attention_research.kernels.variants.sink import sink_attention
from attention_research.kernels.variants.softcap import softcap_attention
from attention_research.kernels.variants.streaming import (
    RollingCache,
    streaming_attention,
    streaming_attention_step,
)
from attention_research.kernels.variants.temperature import temperature_attention
from attention_research.kernels.vision import (
    cbam,
    channel_attention,
    convolution_as_attention,
    head_offsets,
    offset_scores,
    offset_weights,
    sca,
    sca_channel_weights,
    sca_spatial_weights,
    spatial_attention,
    squeeze_excitation,
)

__all__ = [
    "Choice",
    "CopyAttention",
    "FeatureSums",
    "RollingCache",
    "Routing",
    "absorbed_latent_attention",
    "add_positions",
    "additive_scores",
    "alibi_bias",
    "alibi_distance_bias",
    "alibi_slopes",
    "attend",
    "attention_entropy",
    "attention_weights",
    "bigbird_attention",
    "bigbird_random_blocks",
    "block_local_attention",
    "block_local_cache",
    "block_local_step",
    "block_summaries",
    "causal_mask",
    "cbam",
    "channel_attention",
    "choosing_probability",
    "chunked_log_likelihood",
    "combine_masks",
    "compress",
    "concat_scores",
    "concatenate_positions",
    "convolution_as_attention",
    "convolutional_copy_attention",
    "convolutional_features",
    "convolved_linformer_attention",
    "copy_distribution",
    "copy_mixture_log_probability",
    "cosine_scores",
    "cost_to_go",
    "coverage_attention",
    "coverage_loss",
    "coverage_vectors",
    "dense_synthesizer_attention",
    "dense_synthesizer_scores",
    "differential_attention",
    "differential_lambda",
    "differential_lambda_init",
    "dot_product_attention",
    "dot_scores",
    "dynamic_convolution",
    "dynamic_convolution_step",
    "elu_features",
    "explain_implementation",
    "extend_with_memory",
    "factorized_dense_scores",
    "factorized_dense_synthesizer_attention",
    "factorized_random_scores",
    "factorized_random_synthesizer_attention",
    "general_scores",
    "generation_probability",
    "grouped_query_attention",
    "gru_cell",
    "gru_reset_before_cell",
    "gumbel_attention",
    "gumbel_softmax",
    "hard_attention",
    "hard_monotonic_decode",
    "head_offsets",
    "latent_attention",
    "layer_norm",
    "learned_positions",
    "lightweight_convolution",
    "lightweight_convolution_step",
    "linear_attention",
    "linear_attention_step",
    "linformer_attention",
    "local_weights",
    "local_window",
    "location_scores",
    "location_weights",
    "lsh_attention",
    "lsh_buckets",
    "lstm_cell",
    "mixture_scores",
    "mixture_synthesizer_attention",
    "mocha_weights",
    "monotonic_alignment",
    "monotonic_energy",
    "moving_average_baseline",
    "next_memory",
    "no_positions",
    "no_sums",
    "offset_scores",
    "offset_weights",
    "orthogonal_features",
    "padding_mask",
    "performer_attention",
    "performer_attention_step",
    "pointer_generator",
    "pool_heads",
    "pooled_linformer_attention",
    "positional_attention",
    "positive_features",
    "predicted_centers",
    "product_key_search",
    "project",
    "project_concatenated",
    "projected_additive_scores",
    "query_key_l2_attention",
    "query_key_norm_attention",
    "recurrence",
    "reduced_rank_scores",
    "reinforce_surrogate",
    "relative_attention",
    "relative_weights",
    "released_dense_synthesizer_attention",
    "released_dense_synthesizer_scores",
    "released_factorized_random_scores",
    "reversible_layers",
    "ring_attention",
    "rms_norm",
    "rotary",
    "sca",
    "sca_channel_weights",
    "sca_spatial_weights",
    "scaled_dot_scores",
    "segment_mask",
    "semi_sampled_attention",
    "sequence_convolution",
    "sigmoid_attention",
    "sink_attention",
    "sinkhorn",
    "sinkhorn_attention",
    "sinusoidal_at",
    "sinusoidal_positions",
    "sliding_window_attention",
    "sliding_window_cache",
    "sliding_window_step",
    "softcap_attention",
    "spatial_attention",
    "squeeze_excitation",
    "streaming_attention",
    "streaming_attention_step",
    "structural_attention",
    "structural_depths",
    "structural_distances",
    "structural_encoding",
    "switch_routing",
    "synthesizer_attention",
    "t5_buckets",
    "t5_distance_bias",
    "t5_relative_bias",
    "temperature_attention",
    "top_2_routing",
    "transformer_xl_attention",
    "transformer_xl_weights",
    "vanilla_cell",
    "window_mask",
]

"""Variants of dot-product attention with a different scale, norm, normalization, number of heads or cache."""

from attention_research.kernels.variants.differential import (
    differential_attention,
    differential_lambda,
    differential_lambda_init,
)
from attention_research.kernels.variants.entmax import entmax, entmax_attention
from attention_research.kernels.variants.entmax15 import entmax15, entmax15_attention
from attention_research.kernels.variants.exclusive import without_own_value
from attention_research.kernels.variants.forgetting import forget_bias, forgetting_attention
from attention_research.kernels.variants.grouped_query import grouped_query_attention, pool_heads
from attention_research.kernels.variants.latent import absorbed_latent_attention, latent_attention
from attention_research.kernels.variants.length_scaled import length_scaled_attention, length_scaled_query
from attention_research.kernels.variants.lightning_indexer import index_loss, index_scores, indexed_attention, top_keys
from attention_research.kernels.variants.moba import moba_attention, moba_mask
from attention_research.kernels.variants.multi_token import convolved_pairs, multi_token_attention
from attention_research.kernels.variants.native_sparse import native_sparse_attention
from attention_research.kernels.variants.path import path_attention, path_logits, reflected_keys
from attention_research.kernels.variants.position_scaled import position_scaled_attention, position_scaled_query
from attention_research.kernels.variants.query_key_l2 import query_key_l2_attention
from attention_research.kernels.variants.query_key_norm import query_key_norm_attention
from attention_research.kernels.variants.selective import selective_attention, selective_bias
from attention_research.kernels.variants.sigmoid import sigmoid_attention
from attention_research.kernels.variants.sink import sink_attention
from attention_research.kernels.variants.softcap import softcap_attention
from attention_research.kernels.variants.sparsemax import sparsemax, sparsemax_attention
from attention_research.kernels.variants.stick_breaking import stick_breaking_attention, stick_breaking_weights
from attention_research.kernels.variants.streaming import RollingCache, streaming_attention, streaming_attention_step
from attention_research.kernels.variants.talking_heads import talking_heads_attention, talking_heads_weights
from attention_research.kernels.variants.temperature import temperature_attention
from attention_research.kernels.variants.tensor_product import tensor_product_attention, tensor_product_heads

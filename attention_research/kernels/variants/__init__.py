"""Variants of dot-product attention with a different scale, norm, normalization, number of heads or cache."""

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
from attention_research.kernels.variants.streaming import RollingCache, streaming_attention, streaming_attention_step
from attention_research.kernels.variants.temperature import temperature_attention

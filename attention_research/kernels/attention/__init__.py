"""Scaled dot-product attention with several implementations of the same function."""

from attention_research.kernels.attention.api import (
    Choice,
    attention_weights,
    dot_product_attention,
    explain_implementation,
)
from attention_research.kernels.attention.ring import ring_attention

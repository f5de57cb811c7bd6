"""Scaled dot-product attention: one meaning, several implementations."""

from attention_research.kernels.attention.api import (
    Choice,
    attention_weights,
    dot_product_attention,
    explain_implementation,
)
from attention_research.kernels.attention.ring import ring_attention

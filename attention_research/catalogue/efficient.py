"""Attention cheaper than quadratic in the length: by features, by hashing, by sorting, by patterns."""

from attention_research.catalogue import efficient_features

MECHANISMS = (*efficient_features.MECHANISMS,)

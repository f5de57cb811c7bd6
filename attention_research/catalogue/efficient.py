"""Attention cheaper than quadratic in the length: by patterns and projections, by features, by hashing, by sorting."""

from attention_research.catalogue import efficient_features, efficient_patterns

MECHANISMS = (*efficient_patterns.MECHANISMS, *efficient_features.MECHANISMS)

"""Attention cheaper than quadratic in the length, one file a mechanism."""

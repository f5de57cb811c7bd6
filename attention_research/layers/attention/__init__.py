"""Attention layers: projections and decoding caches around the kernels. One variant per file."""

"""Attention layers: projections and caches around the kernels; one variant a file."""

"""Flax NNX modules that own parameters and their caches, and call kernels; one folder a family."""

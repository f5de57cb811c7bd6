"""Flax NNX modules. They own parameters, define decoding caches, and call kernels. Each family has its own folder."""

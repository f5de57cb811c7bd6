"""Attention and Transformer systems in JAX and Flax: each one small file, every table one command."""

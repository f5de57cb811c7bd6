"""Attention and Transformer systems in JAX and Flax: each one small file, every table one command."""

from attention_research import bundled

bundled.importable()

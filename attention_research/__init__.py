"""Attention and Transformer research in JAX and Flax: one file per variant, one command per table."""

from attention_research import bundled

bundled.importable()

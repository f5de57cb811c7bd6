"""Data: TFDS builders, tokenizers, and batches that are a pure function of (seed, step)."""

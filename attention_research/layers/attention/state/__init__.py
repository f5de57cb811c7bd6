"""Self-attention with a state of constant size, for decoders. One variant per file."""

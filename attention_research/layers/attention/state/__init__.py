"""Self-attention with a state of constant or logarithmic size, for decoders. One variant per file."""

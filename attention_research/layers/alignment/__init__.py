"""Attention mechanisms (alignments) of recurrent decoders, one per file. Their score functions are in `scores`."""

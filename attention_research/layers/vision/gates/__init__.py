"""Attention over channels, positions or both, which weights the branch of a residual block (`image_gate`)."""

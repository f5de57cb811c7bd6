"""Attention inside a residual block, over channels, positions or both: what a branch is weighted by (`image_gate`)."""

"""Models that name functions, and those of them that copy sub-tokens out of the body."""

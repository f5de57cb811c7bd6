"""Dot-product attention with another scale, norm, saturation, normaliser, number of heads or cache."""

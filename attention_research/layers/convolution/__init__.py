"""Layers that mix neighbours by learned filters."""

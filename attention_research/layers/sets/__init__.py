"""Layers on sets."""

"""Meshes, sharding rules over parameter paths, and how a step is executed on them."""

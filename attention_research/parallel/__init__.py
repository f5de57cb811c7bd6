"""Meshes, sharding rules for parameter names, and the execution of train steps on a mesh."""

"""Mixing positions without comparing queries and keys: Synthesizers, lightweight and dynamic convolution."""

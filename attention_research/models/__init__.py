"""Whole networks, each with the model protocol (encode, start, step, log_likelihood) or the part that it has."""

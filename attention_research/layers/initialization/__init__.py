"""Initialization schemes for all parameters of a model, as specified by papers. One scheme per file."""

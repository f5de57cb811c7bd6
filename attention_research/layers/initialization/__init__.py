"""How all parameters of a model start, where a paper says so for the whole model: one rule a file."""

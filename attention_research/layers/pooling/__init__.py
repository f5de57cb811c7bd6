"""Pooling layers: they map the embeddings of a text's tokens to one vector, a weighted average.

A pooling layer is constructed with the width of the embeddings (`input_width`) and has the attribute `output_width`,
the width of its vector. It is called with the embeddings [B S D], the batch ("source" holds the tokens, 0 is padding)
and the mask of non-padding positions. It returns the vectors and {"weights": [B S]}, the weight of each position.
Weights are non-negative, sum to 1 and are 0 at padding.
"""

"""From the embeddings of a text's tokens to one vector: an average whose weights are fixed, learned or found.

A pooling is built with the width of the embeddings (`input_width`), has the width of its vector (`output_width`), and
is called with the embeddings [B S D], the batch ("source" holds the tokens, 0 is padding) and which positions are not
padding. It gives the vectors and {"weights": [B S]}, how much each position counts: not negative, of sum 1, 0 in
padding.
"""

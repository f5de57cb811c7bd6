"""Ontanon et al. 2021, Table 1, "Add": sums of longer numbers than in training, by the kind of positions.

    attention-research reproduce ontanon2021/addition --scale=paper

Numbers have 1 to 8 digits in training and 9 or 10 in the test (`data.longer`). The rows are the paper's: sinusoids, and
relative positions as vectors for keys (Shaw et al. 2018), as biases, or both, clipped at a distance of 16; "also to the
source" adds them to the attention from the decoder to the encoder.
"""

from .systems import study

STUDY = study("addition", "relative-to-the-source-adds")

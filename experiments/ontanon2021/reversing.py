"""Ontanon et al. 2021, Table 1, "Reverse": reversing longer sequences than in training, by the kind of positions.

    attention-research reproduce ontanon2021/reversing --scale=paper

Sequences have 1 to 16 digits in training and 17 to 24 in the test (`data.longer`). The rows are those of
`ontanon2021/addition`.
"""

from .systems import study

STUDY = study("reversing", "relative-to-the-source-reverses")

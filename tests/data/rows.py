"""Which tokens of a row belong to which example, in packed batches and in plain ones."""

import numpy as np


def segments(batch, side):
    """[B T]: 0 padding, 1 and up the examples of a row; a plain batch has one a row."""
    return batch[f"{side}_segments"] if f"{side}_segments" in batch else (batch[side] != 0).astype(np.int32)

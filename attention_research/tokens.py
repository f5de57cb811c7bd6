"""The special token ids, the same everywhere: vocabularies are trained with them, models and decoding rely on them."""

PAD, BOS, EOS, UNKNOWN = 0, 1, 2, 3

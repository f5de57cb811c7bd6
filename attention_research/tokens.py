"""The ids of special tokens. Vocabularies are trained with these ids, and models and decoding rely on them."""

PAD, BOS, EOS, UNKNOWN = 0, 1, 2, 3

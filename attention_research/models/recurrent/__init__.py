"""Recurrent sequence to sequence: encoders, decoders, how a decoder starts, and the model of them."""

"""Recurrent sequence-to-sequence models: encoders, decoders, initial decoder states, and the complete model."""

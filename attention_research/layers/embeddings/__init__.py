"""Vocabularies: who owns the embedding tables and the output layer, and so the likelihood."""

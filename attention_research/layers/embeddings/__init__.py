"""Vocabularies: modules that own the embedding tables and the output layer, and compute likelihoods."""

"""The distribution of a latent alignment: of the source position that an output reads."""

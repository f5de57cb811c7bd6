"""Position encodings that are added to (or combined with) the embeddings."""

"""What tells a model where a token stands: modules added to the embeddings."""

"""Image encoders: patch embeddings and convolutional networks."""

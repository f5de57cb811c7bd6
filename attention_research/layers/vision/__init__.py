"""From an image to vectors: patches, and the grids of convolutional networks."""

"""Pictures to words: a network of images, then a decoder that attends to its map."""

"""Image captioning models: an image network and a decoder that attends to its feature map."""

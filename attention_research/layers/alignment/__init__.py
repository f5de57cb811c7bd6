"""How a recurrent decoder looks at its source: one alignment a file, over the score functions of `scores`."""

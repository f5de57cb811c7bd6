"""Score functions of a decoder state and the source's states, with their parameters: one a file."""

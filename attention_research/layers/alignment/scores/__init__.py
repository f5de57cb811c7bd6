"""Score functions between a decoder state and the source states, with their parameters. One per file."""

"""Which layers of a stack differ from the others, and in what: a list of segments (children, how many layers)."""

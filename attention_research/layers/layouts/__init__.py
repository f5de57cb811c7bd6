"""Layouts define which layers of a stack differ from the others: a list of segments (children, number of layers)."""

"""Reads the folders of runs and studies: their state, the differences between runs, and pages about them."""

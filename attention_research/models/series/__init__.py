"""Models of series of numbers: the values at each position, and the networks that read the series."""

"""Models that select words of a text and read only these, Lei, Barzilay & Jaakkola 2016 (arXiv 1606.04155)."""

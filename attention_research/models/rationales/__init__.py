"""Models that read only the words that they select: Lei, Barzilay & Jaakkola 2016 (arXiv 1606.04155)."""

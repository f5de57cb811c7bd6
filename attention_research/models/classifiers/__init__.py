"""Models that say which class a text belongs to."""

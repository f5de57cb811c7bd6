"""Position-wise feed-forward layers."""

"""Recurrent cells that own their weights, and the scan that runs one over a padded batch."""

"""Recurrent cells, and a scan that runs a cell over a padded batch."""

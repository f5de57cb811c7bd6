"""Shortcuts of residual blocks: they add the input of a block to its output, also if the shape changes (`shortcut`)."""

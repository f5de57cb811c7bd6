"""How a residual block adds its input, where its shape changes too, or that it does not (`shortcut`)."""

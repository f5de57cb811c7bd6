"""Residual connections: they combine the output of a branch with its input (the step "residual" of a block)."""

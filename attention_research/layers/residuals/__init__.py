"""How a branch joins the stream that it began with: the step "residual" of a block."""

"""Train state, step, loop, optimizers and schedules, checkpoints; what runs when a config is trained or evaluated."""

"""Training and evaluation of a config: train state, train step, loop, optimizers, schedules and checkpoints."""

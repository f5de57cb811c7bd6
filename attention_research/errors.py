"""The errors of a running program: a line for the user, exit status 1 (a wrong config is a `ConfigError`, 2)."""


class RunError(Exception):
    """Something failed while running; the message is one line that says what to do."""


class Diverged(RunError):
    """A loss, a gradient or a parameter is not finite: a finding about what was trained, not about the machine."""

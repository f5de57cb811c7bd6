"""The one error of a running program: a line for the user, exit status 1 (a wrong config is a `ConfigError`, 2)."""


class RunError(Exception):
    """Something failed while running; the message is one line that says what to do."""

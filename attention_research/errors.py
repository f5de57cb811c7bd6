"""What goes wrong and is the user's to know: each error is one line that says what to do."""


class ConfigError(Exception):
    """The user's arguments or config are wrong (exit status 2)."""

    def __init__(self, message: str):
        super().__init__(" ".join(str(message).split()))


class RunError(Exception):
    """Something failed while running (exit status 1)."""


class Diverged(RunError):
    """A loss, a gradient or a parameter is not finite: a finding about what was trained, not about the machine."""

"""What goes wrong and is the user's to know: each error is one line that says what to do."""


def printable(text: str) -> str:
    """The text with an escape for each character that would break a line or cannot be printed, as file names may have.

    >>> printable("runs/a\\nb")
    'runs/a\\\\nb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ConfigError(Exception):
    """The user's arguments or config are wrong (exit status 2)."""

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


class RunError(Exception):
    """Something failed while running (exit status 1)."""

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


class Diverged(RunError):
    """A loss, a gradient or a parameter is not finite: a finding about what was trained, not about the machine."""

"""Errors that are shown to the user. Each message is one line that says what to do."""

import signal


def printable(text: str) -> str:
    """The text with escapes for line breaks and other unprintable characters, which file names may contain.

    >>> printable("runs/a\\nb")
    'runs/a\\\\nb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ConfigError(Exception):
    """The arguments or the config are invalid (exit status 2)."""

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


class RunError(Exception):
    """A command failed while running (exit status 1)."""

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


class Stopped(RunError):
    """A signal has stopped a command (exit status 128 + its `number`, as in a shell). The message starts with its
    name."""

    def __init__(self, line: str, number: int):
        super().__init__(f"{signal.Signals(number).name}: {line}")
        self.number = number


class Diverged(RunError):
    """A loss, a gradient or a parameter is NaN or infinite. The cause is the trained model, not the machine."""

"""The command line `attention-research`. Each subcommand is one module, with the name of the subcommand.

The exit status is 0 for success, 1 for an error while running, and 2 for wrong arguments or a wrong config. Every error
is one line. A run that is stopped by a signal saves a checkpoint, prints how to continue, and exits with 128 + the
signal's number (SIGTERM 143, Ctrl-C 130). A command imports JAX only when it is about to use it, so that `--help`,
`list` and wrong arguments return at once.
"""

from collections.abc import Sequence

from attention_research import allocator
from attention_research.cli.signals import handled


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    allocator.keep_pages()  # before any thread starts
    with handled():  # before anything slow is imported
        from attention_research.cli import program

        return program.main(argv)


__all__ = ["main"]

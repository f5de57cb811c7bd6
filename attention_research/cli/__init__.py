"""The command `attention-research`; nothing else parses arguments. One file a command, named like it.

Exit status: 0 done; 1 failed while running; 2 the user's arguments or config are wrong; each error is one line. A run
that a signal has stopped saves, says how to continue and exits with 128 + its number (SIGTERM 143, Ctrl-C 130).
JAX is imported only by a command that is about to use it: `--help`, `list` and wrong arguments stay instant.
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

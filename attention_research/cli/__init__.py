"""The command `attention-research`; nothing else parses arguments. One file a command, named like it.

Exit status: 0 done; 1 failed while running; 2 the user's arguments or config are wrong; each error is one line. A run
that a signal has stopped saves, says how to continue and exits with 128 + its number (SIGTERM 143, Ctrl-C 130).
JAX is imported only by a command that is about to use it: `--help`, `list` and wrong arguments stay instant.
"""

from attention_research.cli.program import main

__all__ = ["main"]

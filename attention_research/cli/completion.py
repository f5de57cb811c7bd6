"""`completion`: prints a script with which a shell completes commands and options.

For bash:

    attention-research completion bash > ~/.local/share/bash-completion/completions/attention-research
"""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, no_overrides, one_of

SHELLS = ("bash", "zsh", "tcsh")


def options(parser: Parser) -> None:
    parser.add_argument("shell", **one_of(*SHELLS), help="the shell")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    import shtab

    from attention_research.cli.program import whole_parser

    print(shtab.complete(whole_parser(), shell=arguments.shell))
    return 0

"""`data prepare`: downloads, builds and tokenises data sets."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, nearest, no_overrides, say
from attention_research.errors import ConfigError


def options(parser: Parser) -> None:
    parser.add_argument("action", metavar="prepare", help="downloads and prepares the data sets")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of `list datasets`")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.action != "prepare":
        raise ConfigError(f"{arguments.action}: no such action{nearest(arguments.action, ['prepare'])}")
    if not arguments.names:
        raise ConfigError("data prepare: name the data sets; `attention-research list datasets` shows them")
    from attention_research.data.names import check_name

    for name in arguments.names:
        check_name(name)
    from attention_research.data.sources import prepare_dataset

    for name in arguments.names:
        prepare_dataset(name, say)
    return 0

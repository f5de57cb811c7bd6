"""`bench`: runs a file of benchmarks/."""

from __future__ import annotations

import argparse
import importlib

from attention_research import bundled
from attention_research.cli.arguments import Overrides, Parser, json_option, nearest, no_overrides
from attention_research.errors import ConfigError


def options(parser: Parser) -> None:
    parser.add_argument("what", metavar="WHAT", help="what to measure, such as train; any other word lists all")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    names = sorted(path.stem for path in bundled.folder("benchmarks").glob("*.py") if path.stem[0] != "_")
    if arguments.what not in names:
        raise ConfigError(f"{arguments.what}: no such benchmark{nearest(arguments.what, names)}")
    importlib.import_module(f"attention_research.benchmarks.{arguments.what}").main(arguments.json)
    return 0

"""`report`: writes one self-contained page about a run or a study."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, no_overrides, place
from attention_research.errors import ConfigError, printable


def options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", type=place, metavar="DIR", help="the folder of a run or a study")
    parser.add_argument("--output", type=place, metavar="FILE", help="the page to write (default: DIR/report.html)")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.folder is None:
        raise ConfigError("report: name the folder of a run or a study, for example runs/first")
    from attention_research.workdirs.page import report

    print(f"page {printable(str(report(arguments.folder, arguments.output)))}")
    return 0

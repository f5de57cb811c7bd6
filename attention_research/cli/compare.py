"""`compare`: shows runs side by side."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, json_option, no_overrides, place, print_json, say


def options(parser: Parser) -> None:
    parser.add_argument("runs", nargs="*", type=place, metavar="DIR", help="two or more folders of runs")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    from attention_research.workdirs.comparison import compare

    comparison = compare(arguments.runs, say)
    if arguments.json:
        return print_json(comparison.as_json())
    from attention_research.workdirs.comparison_text import text

    print(text(comparison), end="")
    return 0

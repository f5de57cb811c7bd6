"""`status`: the runs and studies that are there."""

from __future__ import annotations

import argparse
from pathlib import Path

from attention_research.cli.arguments import Overrides, Parser, no_overrides, place, print_json, say

_RUNS = Path("runs")


def options(parser: Parser) -> None:
    parser.add_argument("folders", nargs="*", type=place, metavar="DIR", help="runs, studies, folders of them (runs/)")
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    from attention_research.workdirs.status import as_json, status, text

    folders = arguments.folders or ([_RUNS] if _RUNS.is_dir() else [])
    lines = status(folders)
    if arguments.json:
        return print_json(as_json(lines))
    if lines:
        print(text(lines))
    else:
        say(f"no runs in {', '.join(map(str, folders)) or _RUNS}")
    return 0

"""`status`: lists runs and studies. With `--stale`, says which recorded trials are current, stale or not comparable."""

from __future__ import annotations

import argparse
from pathlib import Path

from attention_research.cli.arguments import Overrides, Parser, json_option, no_overrides, place, print_json, say
from attention_research.errors import ConfigError

_RUNS = Path("runs")


def options(parser: Parser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=place,
        metavar="DIR",
        help="runs, studies, or folders of these (default: runs/); with --stale: names of studies (default: all)",
    )
    parser.add_argument(
        "--stale",
        action="store_true",
        help="compare every recorded trial with what would run now: current (the same program, data and config), stale "
        "(another one) or not comparable; trains nothing",
    )
    parser.add_argument("--scale", help="with --stale: only records of this scale (default: all scales)")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.stale:
        return _stale([str(name) for name in arguments.folders], arguments.scale, as_json=arguments.json)
    if arguments.scale is not None:
        raise ConfigError(f"--scale={arguments.scale}: belongs to --stale; runs and studies are given by their folders")
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


def _stale(studies: list[str], scale: str | None, *, as_json: bool) -> int:
    from attention_research.workdirs.recorded import recorded, text

    tables = recorded(studies, scale, say)
    if as_json:
        return print_json([table.to_json() for table in tables])
    if tables:
        print(text(tables))
    else:
        say(f"nothing is recorded{f' at {scale}' if scale else ''}")
    return 0

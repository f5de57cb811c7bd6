"""`attempt`: runs one planned trial of a study or sweep, in the trial's folder. Every runner starts this command."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, count, no_overrides, place
from attention_research.errors import ConfigError


def options(parser: Parser) -> None:
    parser.add_argument("folder", type=place, metavar="STUDY_DIR/trials/ID", help="the folder of the trial")
    parser.add_argument("--cores", type=cores, default=(), metavar="0,1", help="run on these CPU cores only")
    parser.add_argument("--parent", type=count, metavar="PROCESS", help="end when this process ends")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    folder = arguments.folder
    if not (folder / "trial.json").exists():
        raise ConfigError(f"{folder}: no trial there (trial.json is missing); reproduce and sweep plan them")
    from attention_research.studies.worker import work

    return work(folder, cores=arguments.cores, parent=arguments.parent)


def cores(text: str) -> list[int]:
    """Parses a list of cores, `0,1`."""
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--cores={text}: expected numbers of cores, as in 0,1")
    return [int(part) for part in parts]

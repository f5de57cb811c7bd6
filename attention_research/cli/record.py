"""`record`: runs and records the missing and stale trials of many studies, by priority, within some hours."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    no_study_overrides,
    place,
    positive,
    scale_option,
    stale_option,
)


def options(parser: Parser) -> None:
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="studies to run, in this order (default: all)")
    scale_option(parser)
    parser.add_argument(
        "--hours", type=_hours, help="stop after this number of hours; an unfinished trial is continued next time"
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="trials at the same time (default: that of the scale)"
    )
    stale_option(parser, default="rerun")
    parser.add_argument(
        "--order",
        type=place,
        metavar="FILE",
        help="study names by priority (default: experiments/order.txt, if it exists)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan with its hours; start nothing")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="record although files are modified; the tables say so"
    )
    parser.add_argument("--json", action="store_true", help="print the plan or the outcome as one JSON document")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_study_overrides(overrides)
    from attention_research.studies.recording import record

    return record(
        arguments.studies, scale=arguments.scale, hours=arguments.hours, jobs=arguments.jobs, stale=arguments.stale,
        order=arguments.order, dry_run=arguments.dry_run, allow_dirty=arguments.allow_dirty, as_json=arguments.json,
    )  # fmt: skip


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0; got {text!r}")
    return hours

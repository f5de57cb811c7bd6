"""`budget`: finds learning rates and numbers of steps for the rows of a study, and the hours that they take."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    ids,
    machines,
    no_study_overrides,
    runner_options,
    scale_option,
)


def options(parser: Parser) -> None:
    parser.add_argument("study", metavar="PAPER/TABLE", help="a study of `list studies`, or a file of yours")
    scale_option(parser)
    parser.add_argument(
        "--rows", type=ids, metavar="ID,ID", help="only the learning-rate groups of these rows (default: all)"
    )
    runner_options(parser, "runs/STUDY-SCALE-budget")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_study_overrides(overrides)
    from attention_research.studies.budgeting import budget

    return budget(
        arguments.study, scale=arguments.scale, rows=arguments.rows, runner=arguments.runner, jobs=arguments.jobs,
        machines=machines(arguments), workdir=arguments.workdir, stale=arguments.stale, as_json=arguments.json,
    )  # fmt: skip

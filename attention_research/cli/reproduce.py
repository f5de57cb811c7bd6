"""`reproduce`: runs the missing trials of a study, then writes its table, figures and page."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    ids,
    machines,
    no_study_overrides,
    scale_option,
    study_options,
)


def options(parser: Parser) -> None:
    parser.add_argument("study", metavar="PAPER/TABLE", help="a study of `list studies`, or a file of yours")
    scale_option(parser)
    parser.add_argument("--rows", type=ids, metavar="ID,ID", help="only these rows (default: all rows of the scale)")
    parser.add_argument("--record", action="store_true", help="store the results beside the study, under results/")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="record although files are modified; the table says so"
    )
    parser.add_argument(
        "--render", action="store_true", help="make table and figures from the results that exist; train nothing"
    )
    parser.add_argument("--ignore-records", action="store_true", help="train recorded trials too")
    study_options(parser, "runs/STUDY-SCALE")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_study_overrides(overrides)
    from attention_research.studies.run import reproduce

    return reproduce(
        arguments.study, scale=arguments.scale, rows=arguments.rows, seeds=arguments.seeds,
        runner=arguments.runner, jobs=arguments.jobs, machines=machines(arguments), workdir=arguments.workdir,
        stale=arguments.stale, record=arguments.record, render=arguments.render,
        allow_dirty=arguments.allow_dirty, ignore_records=arguments.ignore_records, as_json=arguments.json,
    )  # fmt: skip

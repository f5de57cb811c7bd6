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
    parser.add_argument("--rows", type=ids, help="id,id,... (all of the scale's)")
    parser.add_argument("--record", action="store_true", help="keep the results beside the study, under results/")
    parser.add_argument("--allow-dirty", action="store_true", help="record from a modified tree; the table says so")
    parser.add_argument("--render", action="store_true", help="redraw from what is there, train nothing")
    parser.add_argument("--ignore-records", action="store_true", help="train also what is recorded")
    study_options(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_study_overrides(overrides)
    from attention_research.studies.run import reproduce

    return reproduce(
        arguments.study, scale=arguments.scale, rows=arguments.rows, seeds=arguments.seeds,
        runner=arguments.runner, jobs=arguments.jobs, machines=machines(arguments), workdir=arguments.workdir,
        stale=arguments.stale, record=arguments.record, render=arguments.render,
        allow_dirty=arguments.allow_dirty, ignore_records=arguments.ignore_records, as_json=arguments.json,
    )  # fmt: skip

"""`sweep`: a study without a file, one row a combination of values."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, configured, study_options
from attention_research.errors import ConfigError


def options(parser: Parser) -> None:
    parser.add_argument("--config")
    parser.add_argument("--over", action="append", default=[], metavar="PATH=V1,V2", help="several: their product")
    study_options(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    configured(arguments, overrides)
    if not arguments.over:
        raise ConfigError("--over=PATH=V1,V2 is missing, for example --over model.num_heads=1,4,8")
    from attention_research.studies.sweep import sweep

    return sweep(
        arguments.config, over=arguments.over, overrides=overrides, seeds=arguments.seeds, runner=arguments.runner,
        jobs=arguments.jobs, workdir=arguments.workdir, stale=arguments.stale, as_json=arguments.json,
    )  # fmt: skip

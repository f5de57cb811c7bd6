"""`sweep`: runs a config over lists of values. A row is a combination of values, or a candidate that a search draws."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    config_option,
    configured,
    machines,
    one_of,
    positive,
    study_options,
)
from attention_research.errors import ConfigError


def options(parser: Parser) -> None:
    config_option(parser)
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="PATH=V1,V2",
        help="a setting and its values, as in model.num_heads=1,4,8; several options give all combinations. With "
        "--search also ranges: LOW..HIGH, or LOW..HIGH:log",
    )
    parser.add_argument(
        "--replicas",
        action="store_true",
        help="train runs that differ only in seed, learning rate, dropout or label smoothing in one program; all "
        "see the batches of the first seed, or of training.data_seed if it is set",
    )
    parser.add_argument("--search", **one_of("random", "tpe"), help="search: Optuna draws one candidate after another")
    parser.add_argument(
        "--trials", type=positive, metavar="N", help="total number of candidates of a search, including earlier calls"
    )
    parser.add_argument(
        "--halving",
        type=positive,
        nargs="?",
        const=3,
        metavar="ETA",
        help="successive halving: stop a run early unless its validation loss is among the best 1/ETA of the runs "
        "that have reached the same step (ETA: 3 if no number is given)",
    )
    parser.add_argument(
        "--objective",
        metavar="[min:|max:]STAGE.NAME",
        help="the metric to optimize, such as max:evaluate.bleu with --config.evaluation.split=validation; no score "
        "of the test split (default: the last validation loss)",
    )
    study_options(parser, "runs/sweep-CONFIG-HASH or runs/search-CONFIG-HASH")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    config = configured(arguments, overrides)
    if not arguments.over:
        raise ConfigError("--over=PATH=V1,V2 is missing, for example --over model.num_heads=1,4,8")
    from attention_research.studies.axes import check_axes, read_axes

    check_axes(config, read_axes(arguments.over, overrides))
    common = {
        "overrides": overrides, "seeds": arguments.seeds, "runner": arguments.runner, "jobs": arguments.jobs,
        "machines": machines(arguments), "workdir": arguments.workdir, "stale": arguments.stale,
        "as_json": arguments.json,
    }  # fmt: skip
    if arguments.search is None and arguments.halving is None:
        for name in ("trials", "objective"):
            if (value := getattr(arguments, name)) is not None:
                also = " or --halving" if name == "objective" else ""
                raise ConfigError(f"--{name}={value}: needs --search=random or tpe{also}")
        from attention_research.studies.sweep import sweep

        return sweep(arguments.config, arguments.over, replicas=arguments.replicas, **common)
    if arguments.replicas:
        raise ConfigError("--replicas: a search and halving run each candidate by itself; leave one of the two out")
    from attention_research.studies.search import search

    return search(
        arguments.config, arguments.over, arguments.search, trials=arguments.trials, halving=arguments.halving,
        objective=arguments.objective, **common,
    )  # fmt: skip

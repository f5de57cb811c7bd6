"""`evaluate`: losses and scores of a trained run."""

from __future__ import annotations

import argparse
from pathlib import Path

from attention_research.cli.arguments import Overrides, Parser, average_option, print_json, say, trained_workdir
from attention_research.training.environment import keep_compiled_programs


def options(parser: Parser) -> None:
    parser.add_argument("--workdir", type=Path)
    average_option(parser)
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    keep_compiled_programs()
    from attention_research.training.evaluation import evaluate

    result = evaluate(workdir, say, average=arguments.average)
    if arguments.json:
        return print_json(result)
    print(result["summary"])
    print(f"{result['sentences']} sentences of {result['split']} · perplexity {result['perplexity']:.2f} a piece")
    return 0

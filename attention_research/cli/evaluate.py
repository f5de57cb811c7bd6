"""`evaluate`: computes losses and scores of a trained run."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    checkpoint_options,
    json_option,
    print_json,
    say,
    trained_workdir,
    workdir_option,
)
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs


def options(parser: Parser) -> None:
    workdir_option(parser)
    checkpoint_options(parser)
    parser.add_argument(
        "--files", type=pair, metavar="SOURCE,TARGET", help="evaluate on these two text files, one sentence per line"
    )
    json_option(parser)


def pair(text: str) -> tuple[str, str]:
    """Parses `SOURCE,TARGET`."""
    source, comma, target = text.partition(",")
    if not (source and comma and target):
        raise ConfigError(f"--files={text}: expected SOURCE,TARGET, two files of which line i translates line i")
    return source, target


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    keep_compiled_programs()
    from attention_research.training.evaluation import evaluate
    from attention_research.training.selection import Selection, criterion_of
    from attention_research.training.workdir import load_config
    from attention_research.workdirs import replicas

    chosen = {"average": arguments.average, "checkpoint": arguments.checkpoint, "files": arguments.files}
    result = evaluate(workdir, say, **chosen)
    config = load_config(workdir)
    if arguments.files is None and config.resolved["training"]["track"]:
        from attention_research.workdirs.figures import track

        track(workdir)
    if arguments.json:
        return print_json(result)
    print("\n".join(replicas.text(result)))
    print(Selection(result["checkpoint"], result["averaged"], str(criterion_of(config))))
    return 0

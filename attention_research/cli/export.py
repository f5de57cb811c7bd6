"""`export`: writes a trained model to one safetensors file."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    checkpoint_options,
    count,
    place,
    say,
    trained_workdir,
    workdir_option,
)
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs


def options(parser: Parser) -> None:
    workdir_option(parser)
    parser.add_argument("file", nargs="?", type=place, metavar="FILE.safetensors", help="the file to write")
    parser.add_argument(
        "--seed", type=count, metavar="N", help="the seed to export, of a run with replicas (default: the first)"
    )
    checkpoint_options(parser)
    parser.add_argument("--tokenizer", action="store_true", help="also write the SentencePiece model, as FILE.spm")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    if arguments.file is None or arguments.file.suffix != ".safetensors":
        raise ConfigError(f"{arguments.file or 'FILE.safetensors'}: expected the file to write, named *.safetensors")
    keep_compiled_programs()
    from attention_research.export import export

    chosen = {name: getattr(arguments, name) for name in ("seed", "average", "checkpoint", "tokenizer")}
    print("\n".join(export(workdir, arguments.file, **chosen, report=say)))
    return 0

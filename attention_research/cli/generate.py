"""`generate`: translates or continues new text, or describes an image, with a trained run."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from attention_research.analysis import attention_file
from attention_research.cli.arguments import (
    Overrides,
    Parser,
    checkpoint_options,
    expanded,
    json_option,
    place,
    print_json,
    say,
    trained_workdir,
    workdir_option,
)
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs
from attention_research.training.workdir import load_config

if TYPE_CHECKING:
    from attention_research.training.evaluation import Trained

INPUT = (
    "text to translate, a prompt for a language model, a text file with one input per line, - for standard input, or a "
    "picture for a captioning model. Text without spaces that contains / or ends in a known extension (.txt, .tsv, "
    ".json, .gz, ...), or that is nearly the name of a file, is read as a file name. Every input line gives one output "
    "line, and a blank line gives a blank line. Truncated or replaced text is reported on standard error"
)


def options(parser: Parser) -> None:
    parser.epilog = "--config.decoding.NAME=VALUE changes the decoding, as in --config.decoding.kind=beam."
    workdir_option(parser)
    checkpoint_options(parser)
    parser.add_argument("--input", type=expanded, help=INPUT)
    parser.add_argument(
        "--attention", type=place, metavar="FILE.html|FILE.png", help="draw the attention weights (of one input)"
    )
    json_option(parser, "print the inputs and outputs as one JSON document")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    for path, _ in overrides:
        if path != "decoding" and not path.startswith("decoding."):
            raise ConfigError(f"--config.{path}: only decoding can be changed here, as in decoding.kind=beam")
    workdir = trained_workdir(arguments, [])
    if arguments.input is None:
        raise ConfigError("--input=TEXT|FILE|- is missing: what to translate or continue, or the picture to describe")
    if arguments.attention is not None:
        attention_file.check(arguments.attention, 1)
    config = load_config(workdir)
    from attention_research.workdirs import offers
    from attention_research.workdirs.given_text import given_lines

    offers.check(config.resolved, "generate")
    if config.resolved["task"]["kind"] == "captioning":
        return describe(arguments, overrides, workdir, config.resolved["side"], config.resolved["channels"])
    lines = given_lines(arguments.input, say)
    if arguments.attention is not None:
        attention_file.check(arguments.attention, sum(bool(line.strip()) for line in lines))
    if not lines:
        say(f"--input={arguments.input}: no line, so nothing is written")
        return print_json([]) if arguments.json else 0
    keep_compiled_programs()
    from attention_research.workdirs.generation import generate

    trained = _trained(arguments, overrides, workdir)
    outputs = generate(trained, lines, say)
    if arguments.json:
        print_json([{"input": line, "output": text} for line, text in zip(lines, outputs, strict=True)])
    else:
        print("\n".join(outputs))
    if arguments.attention is not None:
        from attention_research.analysis.attention import of_sentence

        (line,) = (line for line in lines if line.strip())
        attention = of_sentence(trained, line, workdir.resolve().name)
        facts = {**attention.facts, "config": config.hash}  # that of the run, without the overrides of decoding
        facts |= {path: str(value) for path, value in overrides}
        attention_file.write(arguments.attention, dataclasses.replace(attention, facts=facts))
        say(f"attention {arguments.attention}")
    return 0


def _trained(arguments: argparse.Namespace, overrides: Overrides, workdir: Path) -> Trained:
    from attention_research.training.evaluation import Trained

    given = {"average": arguments.average, "checkpoint": arguments.checkpoint, "overrides": overrides}
    trained = Trained(workdir, say, **given)
    say(str(trained.selection))
    return trained


def describe(arguments: argparse.Namespace, overrides: Overrides, workdir: Path, side: int, channels: int) -> int:
    """Prints the caption of the user's image, for a captioning run."""
    from attention_research.analysis.picture_attention import of_picture, read_picture
    from attention_research.workdirs.given_text import is_there, nearest_file

    if not is_there(arguments.input):
        file = nearest_file(arguments.input)
        raise ConfigError(f"--input={arguments.input}: no such file{file}; expected the file of a picture")
    image = read_picture(Path(arguments.input), side, channels)
    keep_compiled_programs()
    from attention_research.workdirs.generation import one_line

    trained = _trained(arguments, overrides, workdir)
    attention = None if arguments.attention is None else of_picture(trained, image, workdir.resolve().name)
    if attention is None:
        caption = one_line(trained.data.tokenizer.decode(trained.captions(image[None]))[0])
    else:
        caption = one_line(" ".join(attention.words))
    if arguments.json:
        print_json([{"input": arguments.input, "output": caption}])
    else:
        print(caption)
    if attention is None:
        return 0
    attention_file.write_picture(arguments.attention, attention)
    say(f"attention {arguments.attention}")
    return 0

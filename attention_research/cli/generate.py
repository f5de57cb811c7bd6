"""`generate`: what a trained run makes of new text, or of a picture."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attention_research.analysis import attention_file
from attention_research.cli.arguments import Overrides, Parser, checkpoint_options, place, say, trained_workdir
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs
from attention_research.training.workdir import load_config


def options(parser: Parser) -> None:
    parser.add_argument("--workdir", type=place)
    checkpoint_options(parser)
    parser.add_argument("--input", help="a sentence, a file with one a line, or - for standard input; a picture's file")
    parser.add_argument("--attention", type=place, metavar="FILE.html|FILE.png", help="draw where its tokens look")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    if arguments.input is None:
        raise ConfigError("--input=TEXT|FILE|- is missing: what to translate, or the picture to describe")
    if arguments.attention is not None:
        attention_file.check(arguments.attention, 1)
    config = load_config(workdir).resolved
    if config["task"]["kind"] == "captioning":
        return describe(arguments, workdir, config["side"], config["channels"])
    if arguments.input == "-":
        lines = sys.stdin.read().splitlines()
    elif len(arguments.input) < 4096 and Path(arguments.input).is_file():
        lines = Path(arguments.input).read_text().splitlines()
    else:
        lines = [arguments.input]
    if arguments.attention is not None:
        attention_file.check(arguments.attention, len(lines))
    keep_compiled_programs()
    from attention_research.training.evaluation import Trained

    trained = Trained(workdir, say, average=arguments.average, checkpoint=arguments.checkpoint)
    say(str(trained.selection))
    if arguments.attention is None:
        print("\n".join(trained.translate(lines)))
        return 0
    from attention_research.analysis.attention import of_sentence

    attention = of_sentence(trained, lines[0], workdir.resolve().name)
    print(attention.translation)
    attention_file.write(arguments.attention, attention)
    say(f"attention {arguments.attention}")
    return 0


def describe(arguments: argparse.Namespace, workdir: Path, side: int, channels: int) -> int:
    """A captioner on the user's picture."""
    from attention_research.analysis.picture_attention import of_picture, read_picture

    image = read_picture(Path(arguments.input), side, channels)
    keep_compiled_programs()
    from attention_research.training.evaluation import Trained

    trained = Trained(workdir, say, average=arguments.average, checkpoint=arguments.checkpoint)
    say(str(trained.selection))
    if arguments.attention is None:
        print(trained.data.tokenizer.decode(trained.captions(image[None]))[0])
        return 0
    attention = of_picture(trained, image, workdir.resolve().name)
    print(" ".join(attention.words))
    attention_file.write_picture(arguments.attention, attention)
    say(f"attention {arguments.attention}")
    return 0

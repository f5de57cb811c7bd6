"""`generate`: translates or continues new text, or describes an image, with a trained run."""

from __future__ import annotations

import argparse
from pathlib import Path

from attention_research.analysis import attention_file
from attention_research.cli.arguments import Overrides, Parser, checkpoint_options, place, say, trained_workdir
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs
from attention_research.training.workdir import load_config

INPUT = (
    "a sentence, a language model's prompt, a file with one a line, or - for standard input; a picture's file. A text "
    "without blanks that has a / or ends like a file (.txt, .tsv, .json, .gz, ...), or is nearly the name of one, is "
    "taken for a file. Each input line gives one output line, a blank one a blank one; what is cut or replaced is said "
    "on standard error"
)


def options(parser: Parser) -> None:
    parser.add_argument("--workdir", type=place)
    checkpoint_options(parser)
    parser.add_argument("--input", help=INPUT)
    parser.add_argument("--attention", type=place, metavar="FILE.html|FILE.png", help="draw where its tokens look")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    if arguments.input is None:
        raise ConfigError("--input=TEXT|FILE|- is missing: what to translate or continue, or the picture to describe")
    if arguments.attention is not None:
        attention_file.check(arguments.attention, 1)
    config = load_config(workdir).resolved
    from attention_research.workdirs import offers
    from attention_research.workdirs.given_text import given_lines

    offers.check(config, "generate")
    if config["task"]["kind"] == "captioning":
        return describe(arguments, workdir, config["side"], config["channels"])
    lines = given_lines(arguments.input)
    if arguments.attention is not None:
        attention_file.check(arguments.attention, sum(bool(line.strip()) for line in lines))
    if not lines:
        say(f"--input={arguments.input}: no line, so nothing is written")
        return 0
    keep_compiled_programs()
    from attention_research.training.evaluation import Trained
    from attention_research.workdirs.generation import generate

    trained = Trained(workdir, say, average=arguments.average, checkpoint=arguments.checkpoint)
    say(str(trained.selection))
    for text in generate(trained, lines, say):
        print(text)
    if arguments.attention is not None:
        from attention_research.analysis.attention import of_sentence

        (line,) = (line for line in lines if line.strip())
        attention_file.write(arguments.attention, of_sentence(trained, line, workdir.resolve().name))
        say(f"attention {arguments.attention}")
    return 0


def describe(arguments: argparse.Namespace, workdir: Path, side: int, channels: int) -> int:
    """Prints the caption of the user's image, for a captioning run."""
    from attention_research.analysis.picture_attention import of_picture, read_picture
    from attention_research.workdirs.given_text import is_there, nearest_file

    if not is_there(arguments.input):
        raise ConfigError(f"--input={arguments.input}: no such file{nearest_file(arguments.input)}; give a picture's")
    image = read_picture(Path(arguments.input), side, channels)
    keep_compiled_programs()
    from attention_research.training.evaluation import Trained
    from attention_research.workdirs.generation import one_line

    trained = Trained(workdir, say, average=arguments.average, checkpoint=arguments.checkpoint)
    say(str(trained.selection))
    if arguments.attention is None:
        print(one_line(trained.data.tokenizer.decode(trained.captions(image[None]))[0]))
        return 0
    attention = of_picture(trained, image, workdir.resolve().name)
    print(one_line(" ".join(attention.words)))
    attention_file.write_picture(arguments.attention, attention)
    say(f"attention {arguments.attention}")
    return 0

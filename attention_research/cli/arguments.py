"""Options that several commands share, and their output: one-line errors, progress on standard error, JSON."""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from attention_research import checkpoint_choice
from attention_research.config import Config, ConfigError, load
from attention_research.config.fallbacks import fallbacks
from attention_research.config.values import whole
from attention_research.training.workdir import json_text

#: The path and value of each `--config.a.b=VALUE`, in order.
Overrides = list[tuple[str, str]]


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest valid option or command."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message.removeprefix("argument "))


def say(line: str) -> None:
    """Prints a line of log or progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def print_json(document: Any) -> int:
    """Prints one JSON document on standard output. Returns the exit status 0."""
    print(json_text(document, indent=1))
    return 0


def nearest(word: str, among: Sequence[str]) -> str:
    """ "; did you mean X?" for the nearest of `among`, or a list of all if none is near."""
    close = difflib.get_close_matches(word, list(among), 1, 0.5)
    return f"; did you mean {close[0]}?" if close else f"; choose from {', '.join(among)}"


def configured(arguments: argparse.Namespace, overrides: Overrides) -> Config:
    """The config of `--config` with its overrides. Raises ConfigError if it is missing or wrong."""
    if not arguments.config:
        raise ConfigError("--config=NAME[:variant] is missing, for example translation/transformer:cpu or my_config.py")
    config = load(arguments.config, overrides)
    for line in fallbacks(config):
        say(f"note: {line}")
    from attention_research.data.names import check_section

    check_section(config.resolved["data"])
    return config


def trained_workdir(arguments: argparse.Namespace, overrides: Overrides) -> Path:
    """The folder of `--workdir`, an existing run with its own config. Raises ConfigError if there is no run."""
    no_overrides(overrides)
    if arguments.workdir is None:
        raise ConfigError("--workdir=DIR is missing: the folder of a trained run")
    if not os.path.exists(arguments.workdir / "config.json"):
        from attention_research.workdirs.reading import no_run

        why = no_run(arguments.workdir)
        first = "no run there" in why and "did you mean" not in why
        raise ConfigError(f"--workdir={arguments.workdir}: {why}{'; train one first' if first else ''}")
    return arguments.workdir


def workdir_option(parser: Parser) -> None:
    """Adds `--workdir`, the folder of a trained run."""
    parser.add_argument("--workdir", type=place, metavar="DIR", help="the folder of a trained run")


def json_option(parser: Parser, text: str = "print the result as one JSON document") -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help=text)


def config_option(parser: Parser) -> None:
    """Adds `--config`."""
    parser.add_argument(
        "--config",
        type=expanded,
        metavar="NAME[:VARIANT]",
        help="a config, such as translation/transformer:cpu, or a file of yours; --config.a.b=VALUE sets any setting",
    )


def scale_option(parser: Parser, default: str = "cpu") -> None:
    """Adds `--scale`."""
    parser.add_argument(
        "--scale", default=default, help=f"a scale of the study, such as smoke or paper (default: {default})"
    )


def checkpoint_options(parser: Parser) -> None:
    """Adds the options that select the parameters of a trained run."""
    parser.add_argument(
        "--checkpoint",
        type=checkpoint,
        metavar="last|best|STEP",
        help="the checkpoint to load: last, best (by validation loss, or by training.best_by) or a step",
    )
    parser.add_argument(
        "--average",
        type=positive,
        metavar="N",
        help="average the parameters of the N newest checkpoints (default: evaluation.average)",
    )


def no_overrides(overrides: Overrides) -> None:
    """Raises ConfigError for `--config.a.b=VALUE` in a command that uses a run's own config."""
    if overrides:
        raise ConfigError(
            f"--config.{overrides[0][0]}: the workdir's config.json is used; nothing can be overridden here"
        )


def no_study_overrides(overrides: Overrides) -> None:
    """Raises ConfigError for `--config.a.b=VALUE` in a command over a study."""
    if overrides:
        raise ConfigError(f"--config.{overrides[0][0]}: a study's rows are fixed; use sweep for your own")


def study_options(parser: Parser, folder: str) -> None:
    """Adds the options that `reproduce` and `sweep` share. `folder` describes the default of `--workdir`."""
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="number of random seeds of each row, from training.seed on (default: that of the scale; 1 in a sweep)",
    )
    runner_options(parser, folder)


def runner_options(parser: Parser, folder: str) -> None:
    """Adds the options of `reproduce`, `sweep` and `budget`: where trials run, and whether stale trials run again."""
    parser.add_argument(
        "--runner", default="local", metavar="local|ray|slurm", help="where trials run (default: local)"
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="number of trials that run at the same time")
    parser.add_argument("--cores", type=positive, metavar="N", help="ray, slurm: CPU cores per trial")
    parser.add_argument("--devices", type=count, metavar="N", help="ray, slurm: accelerators per trial")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="ray: the cluster's address (default: RAY_ADDRESS, else start Ray here)"
    )
    parser.add_argument(
        "--slurm", type=settings, metavar="KEY=VALUE,...", help="slurm: options of sbatch, such as partition=gpu"
    )
    parser.add_argument("--workdir", type=place, metavar="DIR", help=f"the folder of the trials (default: {folder})")
    stale_option(parser, default="keep")
    json_option(parser, "print the summary as one JSON document")


def stale_option(parser: Parser, *, default: str) -> None:
    """Adds `--stale`, with the command's own default."""
    parser.add_argument(
        "--stale",
        **one_of("rerun", "keep"),
        default=default,
        help="finished trials whose code or data have changed: keep them and mark them as stale, or run them again; "
        f"trials that cannot be compared are always kept (see status --stale; default: {default})",
    )


def machines(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the runner, from the options of `runner_options`."""
    given = {name: getattr(arguments, name) for name in ("cores", "devices", "address")}
    return {**given, "slurm": arguments.slurm}


def checkpoint(text: str) -> str | int:
    """Parses `last`, `best`, or a step."""
    return text if text in checkpoint_choice.NAMES else _at_least(0, text, checkpoint_choice.EXPECTED)


def positive(text: str) -> int:
    """Parses an integer of at least 1."""
    return _at_least(1, text, "a number from 1 up")


def count(text: str) -> int:
    """Parses an integer of at least 0."""
    return _at_least(0, text, "a number from 0 up")


def _at_least(least: int, text: str, expected: str) -> int:
    """Parses an integer of at least `least` as config settings do: 1e3 is 1000, and 1.5 raises an error."""
    value = whole(text.strip())
    if not isinstance(value, int) or value < least:
        raise argparse.ArgumentTypeError(f"expected {expected}; got {text!r}")
    return value


def one_of(*names: str) -> dict[str, Any]:
    """The `type` and `choices` of an argument that is one of these names. Its error offers the nearest."""

    def name(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no such choice: {text!r}{nearest(text, names)}")
        return text

    return {"type": name, "choices": names}


def expanded(text: str) -> str:
    """Parses a name or a path: a leading ~ is the home folder, which a shell does not expand after "="."""
    return os.path.expanduser(text)


def place(text: str) -> Path:
    """Parses the path of a file or folder, with a leading ~ `expanded`.

    An empty path, which Python reads as the current folder, raises an error.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a path; got an empty one (. is the current folder)")
    try:
        os.lstat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("expected a path; got one with a NUL character") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise argparse.ArgumentTypeError(f"{text[:40]}...: the name is too long for a file") from None
    return Path(expanded(text))


def address(text: str) -> str:
    """Parses HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, as in node0:12345; got {text!r}")
    return text


def settings(text: str) -> dict[str, str | int]:
    """Parses `key=value,key=value`. Decimal values become ints."""
    found: dict[str, str | int] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not key.isidentifier() or not equals:
            raise ConfigError(f"--slurm={text}: expected KEY=VALUE,..., as in partition=gpu,time=240")
        found[key] = int(value) if value.isdecimal() else value
    return found


def ids(text: str) -> list[str]:
    """Parses `id,id,...`: at least one id, without duplicates."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise argparse.ArgumentTypeError("expected id,id,...; got none (without the option it is all of them)")
    return found

"""Dispatches the command line to a command's module: its `options(parser)` adds arguments, its `run` runs it."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType

from attention_research.cli.arguments import Parser, nearest, say
from attention_research.errors import ConfigError, RunError, Stopped, printable

#: The numbers of errors of a full disk and of limits on the size of files.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Command, which is also the name of its module -> its line in `--help`.
COMMANDS: dict[str, str] = {
    "train": "train a model from a config; the same command continues an interrupted run",
    "evaluate": "compute the losses and metrics of a trained run and write them to evaluation.json",
    "generate": "translate text, continue a prompt, or caption a picture with a trained run",
    "analyze": "analyze the attention of a trained run: maps, heads, rollout, singular values, position probe",
    "import": "turn a folder with a Hugging Face checkpoint into a run at step 0",
    "sweep": "train a config with several values of its settings and compare the results in a table",
    "reproduce": "train the missing trials of a study and print its table",
    "record": "run and record the missing and stale trials of many studies, within a number of hours",
    "budget": "find learning rates and numbers of steps for a study, by validation loss",
    "inspect": "count parameters, FLOPs and memory and show the sharding, without allocating arrays",
    "attempt": "run one planned trial of a study or sweep (runners call this)",
    "status": "list runs and studies with state, step, loss, speed and remaining time",
    "compare": "compare runs: metrics, and differences of config and environment",
    "report": "write one self-contained HTML page about a run or a study",
    "export": "write a trained model to a safetensors file",
    "list": "list studies, config variants, kinds with their settings, data sets, or claims",
    "data": "download and prepare data sets",
    "bench": "measure speed and memory, beside other libraries",
    "completion": "print a shell completion script: bash, zsh or tcsh",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status. The output is UTF-8 in every locale."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:
        _log_nowhere()
    for stream in (sys.stdout, sys.stderr):  # file names may contain bytes that are not UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)  # its errors have the same text
    try:
        status = dispatch(argv)
        if sys.stdout is not None:
            sys.stdout.flush()  # here a closed pipe or a full disk is handled; at exit it prints a traceback
        return status
    except ConfigError as error:
        say(f"error: {error}")
        return 2
    except Stopped as error:
        say(str(error))
        return 128 + error.number
    except RunError as error:
        say(f"error: {error}")
        return 1
    except BrokenPipeError:
        _write_nowhere()
        return 1
    except OSError as error:
        unnamed = error.filename is None or isinstance(error.filename, int)  # an int is the number of an open file
        name = "a file cannot be written" if unnamed else os.fsdecode(error.filename)
        if error.errno == errno.ENOSPC and not _can_write():
            name = "standard output" if unnamed else name
            _write_nowhere()
        elif unnamed and error.errno not in _FULL:
            raise
        reason = os.strerror(error.errno) if error.errno in _FULL else error.strerror
        say(f"error: {printable(name)}: {reason}")
        return 2 if any(name in (word, word.partition("=")[2]) for word in argv) else 1
    except (AssertionError, RuntimeError) as error:
        from attention_research.training.environment import missing_backend

        wrong = missing_backend(error) or _in_callback(error)
        if wrong is None:
            raise
        say(f"error: {wrong}")
        return 2
    except MemoryError as error:
        say(f"error: not enough memory{f': {error}' if str(error) else ''}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; rerun the same command to continue")
        return 130


def _in_callback(error: Exception) -> str | None:
    """The message of a ConfigError in a callback of a compiled program, whose traceback is the text of JAX's error."""
    start = f"{ConfigError.__name__}: "
    return next((line.removeprefix(start) for line in str(error).splitlines() if line.startswith(start)), None)


def _can_write() -> bool:
    """Whether standard output takes another line. If not, its disk is full."""
    try:
        if sys.stdout is not None:
            print(flush=True)  # flushing alone is not enough: a failed write may have emptied the buffer
    except OSError:
        return False
    return True


def _write_nowhere() -> None:
    """Sends standard output to the null device, so that Python does not try to write its buffer again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _log_nowhere() -> None:
    """Opens the null device as standard error, which the user has closed. Python would print logs on standard output,
    and the next file that is opened would have the number of standard error."""
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.set_inheritable(2, True)
    sys.stderr = open(os.devnull, "w", encoding="utf-8")


def dispatch(argv: list[str]) -> int:
    """Parses the arguments, runs the command and returns the exit status."""
    if argv == ["--version"]:
        print(f"attention-research {version('attention-research')}")
        return 0
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: attention-research COMMAND ...   (attention-research help COMMAND describes a command)\n")
        print("\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items()))
        print("\n  --version  print the version")
        return 0 if argv else 2
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        raise ConfigError(f"{name}: no such command{nearest(name, [*COMMANDS, 'help'])}")
    overrides = [_override(word) for word in rest if word.startswith("--config.")]
    rest = [word for word in rest if not word.startswith("--config.")]
    parser, command = _parser(Parser(prog="attention-research").add_subparsers(), name)
    known, unknown = parser.parse_known_args(rest)
    if unknown:
        raise _unknown(name, unknown[0], [option for action in parser._actions for option in action.option_strings])
    return command.run(known, overrides)


def whole_parser() -> Parser:
    """One parser of all commands, which describes the command line to tools. `dispatch` makes only that of a command,
    since the modules of all commands take longer to import."""
    parser = Parser(prog="attention-research", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name in COMMANDS:
        _parser(commands, name)
    return parser


def _parser(commands: argparse._SubParsersAction[Parser], name: str) -> tuple[Parser, ModuleType]:
    """Adds the parser of a command to `commands`. Returns it and the module of the command."""
    parser = commands.add_parser(name, help=COMMANDS[name], description=COMMANDS[name], allow_abbrev=False)
    module = importlib.import_module(f"attention_research.cli.{name}")
    module.options(parser)
    return parser, module


def _unknown(command: str, word: str, options: list[str]) -> ConfigError:
    """The error for a word that a command does not take: an option, or a name without an option."""
    if word.startswith("-"):
        option = word.partition("=")[0]
        return ConfigError(f"{option}: {command} has no such option{nearest(option, options)}")
    given = next((option for option in ("--config", "--workdir") if option in options), None)
    return ConfigError(f"{word}: unexpected word" + (f"; did you mean {given}={word}?" if given else f" of {command}"))


def _override(word: str) -> tuple[str, str]:
    path, equals, value = word.removeprefix("--config.").partition("=")
    if not equals:
        raise ConfigError(f"--config.{path}: give a value, as in --config.{path}=VALUE")
    return path, value

"""`train`: trains a config in a workdir."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    address,
    config_option,
    configured,
    count,
    place,
    positive,
    say,
)
from attention_research.config import Config, load
from attention_research.config.record import difference
from attention_research.config.values import whole
from attention_research.errors import ConfigError, printable
from attention_research.training.environment import keep_compiled_programs


def options(parser: Parser) -> None:
    config_option(parser)
    parser.add_argument(
        "--workdir", type=place, metavar="DIR", help="the folder of the run; an existing run is continued"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print all settings of the config, and those that differ from its file"
    )
    parser.add_argument(
        "--profile", type=steps, metavar="FIRST:LAST", help="write a profile of these steps to WORKDIR/profile"
    )
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="train on several hosts, which JAX finds in the environment (Slurm, Open MPI, TPU pods)",
    )
    parser.add_argument(
        "--coordinator_address",
        type=address,
        metavar="HOST:PORT",
        help="without automatic discovery: the address of host 0",
    )
    parser.add_argument(
        "--num_processes", type=positive, metavar="N", help="without automatic discovery: the number of hosts"
    )
    parser.add_argument(
        "--process_id", type=count, metavar="N", help="without automatic discovery: the number of this host, from 0"
    )


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    config = configured(arguments, overrides)
    if arguments.workdir is None:
        raise ConfigError("--workdir=DIR is missing: where the run's files go, for example runs/first")
    meeting = _meeting(arguments)
    if arguments.verbose:
        say(json.dumps(config.resolved, indent=1))
    say(_summary(arguments.config, config, None if arguments.verbose else [path for path, _ in overrides]))
    keep_compiled_programs()
    if meeting is not None:
        from attention_research.parallel.hosts import join

        join(*meeting)
    from attention_research.parallel.hosts import is_first
    from attention_research.training.run import train

    summary = train(config, arguments.workdir, say, profile=arguments.profile)
    if config.resolved["training"]["track"] and is_first():
        from attention_research.workdirs.figures import track

        track(arguments.workdir)
    say(f"config {config.hash} · {summary['steps']} steps · loss {summary.get('loss', float('nan')):.3f}")
    again = shlex.join(["attention-research", "evaluate", f"--workdir={arguments.workdir}"])
    say(f"run {printable(str(arguments.workdir))} · next: {printable(again)}")
    return 0


def _summary(spec: str, config: Config, given: Sequence[str] | None) -> str:
    """The config's name and the settings that differ from its file, on one line.

    `given` are the paths of the user's overrides. Differences that follow from them, such as those of child sections
    that inherit a setting, are left out. With None, all differences are listed.
    """
    changed = [
        line
        for line in difference(load(spec), config)
        if given is None or any(line.startswith((f"{path}:", f"{path}.")) for path in given)
    ]
    return f"config {spec}" + (f" with {'; '.join(changed)}" if changed else "")


def _meeting(arguments: argparse.Namespace) -> tuple[str | None, int | None, int | None] | None:
    """(address of host 0, number of hosts, number of this host), or None to train on one host.

    With `--distributed` alone all three are None: JAX reads them from the environment.
    """
    given = {name: getattr(arguments, name) for name in ("coordinator_address", "num_processes", "process_id")}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        return (None, None, None) if arguments.distributed else None
    if missing:
        raise ConfigError(f"--{missing[0]} is missing: --{', --'.join(given)} go together")
    if not 0 <= given["process_id"] < given["num_processes"]:
        raise ConfigError(f"--process_id={given['process_id']}: expected 0 to {given['num_processes'] - 1}")
    return tuple(given.values())


def steps(text: str) -> tuple[int, int]:
    """Parses FIRST:LAST, two steps of at least 1."""
    first, _, last = (whole(part) for part in text.partition(":"))
    if not (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last):
        raise ConfigError(f"--profile={text}: expected FIRST:LAST, two steps from 1 up, for example 20:24")
    return first, last

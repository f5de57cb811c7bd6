"""`train`: a config in a workdir."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from attention_research.cli.arguments import Overrides, Parser, configured, say
from attention_research.errors import ConfigError
from attention_research.training.environment import keep_compiled_programs


def options(parser: Parser) -> None:
    parser.add_argument("--config", help="FILE.py[:variant]; --config.a.b=VALUE sets any setting")
    parser.add_argument("--workdir", type=Path)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    config = configured(arguments, overrides)
    if arguments.workdir is None:
        raise ConfigError("--workdir=DIR is missing: where the run's files go, for example runs/first")
    say(json.dumps(config.resolved, indent=1))
    keep_compiled_programs()
    from attention_research.training.run import train

    summary = train(config, arguments.workdir, say)
    say(f"config {config.hash} · {summary['steps']} steps · loss {summary.get('loss', float('nan')):.3f}")
    say(f"run {arguments.workdir} · next: attention-research evaluate --workdir={arguments.workdir}")
    return 0

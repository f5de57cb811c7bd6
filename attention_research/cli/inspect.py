"""`inspect`: counts parameters, FLOPs and memory of a config or of a study's rows, without training."""

from __future__ import annotations

import argparse
from typing import Any

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    config_option,
    configured,
    expanded,
    ids,
    json_option,
    no_study_overrides,
    print_json,
    scale_option,
)
from attention_research.errors import ConfigError

#: The default scale of a study.
SCALE = "paper"


def options(parser: Parser) -> None:
    config_option(parser)
    parser.add_argument("--study", type=expanded, metavar="PAPER/TABLE", help="a study, in place of a config")
    scale_option(parser, SCALE)
    parser.set_defaults(scale=None)  # so that `_config` knows whether it was given
    parser.add_argument("--rows", type=ids, metavar="ID,ID", help="rows of the study (default: all)")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    if (arguments.config is None) == (arguments.study is None):
        raise ConfigError("give one of --config=NAME[:variant] and --study=STUDY")
    return (_config if arguments.study is None else _study)(arguments, overrides)


def _study(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_study_overrides(overrides)
    from attention_research.studies.inspection import inspect_study

    rows = inspect_study(arguments.study, scale=arguments.scale or SCALE, rows=arguments.rows)
    if arguments.json:
        return print_json(rows)
    for row in rows:
        if row["parameters"] is None:
            print(f"{row['row']:<40} not counted here: a published row")
            continue
        print(f"{row['row']:<40} {row['parameters']:>14,} parameters {row['flops'] / 1e9:>14,.1f} GFLOP a step")
    return 0


def _config(arguments: argparse.Namespace, overrides: Overrides) -> int:
    for name, value in (("rows", arguments.rows and ",".join(arguments.rows)), ("scale", arguments.scale)):
        if value is not None:
            raise ConfigError(
                f"--{name}={value}: belongs to --study; a config has variants, as in --config=NAME:VARIANT"
            )
    config = configured(arguments, overrides)
    from attention_research.training.inspection import inspect

    counted = inspect(config)
    if arguments.json:
        return print_json({"config": config.resolved, "hash": config.hash, **counted})
    print(*counted["architecture"], sep="\n", end="\n\n")
    split = counted["partition"]
    for array in counted["arrays"]:
        share = f" {array['bytes_per_device']:>14,} bytes a device" if split else ""
        print(f"{array['name']:<64} {'x'.join(map(str, array['shape'])):>16} {array['sharding']}{share}")
    gflop, (state, peak) = counted["flops"] / 1e9, (counted[k] / 2**20 for k in ("state_bytes", "peak_bytes"))
    each = f" in each of {counted['replicas']} replicas" if counted["replicas"] > 1 else ""
    print(f"{counted['parameters']:,} parameters{each} · {gflop:,.2f} GFLOP a training step at {counted['batch']}")
    print(f"state {state:,.1f} MiB · step's peak about {peak:,.1f} MiB, before fusion")
    if split:
        _print_partition(split)
    return 0


def _print_partition(split: dict[str, Any]) -> None:
    sizes = " x ".join(f"{axis} {size}" for axis, size in split["mesh"].items() if size > 1)
    print(f"mesh {sizes} · state {split['bytes_per_device'] / 2**20:,.1f} MiB a device · collectives of a step:")
    for one in split["collectives"]:
        over = " x ".join(one["axes"])
        print(f"{one['kind']:<24} over {over:<24} {one['count']:>6} times {one['bytes'] / 2**20:>12,.2f} MiB a device")

"""`bench`: runs a file of benchmarks/."""

from __future__ import annotations

import argparse
import importlib

from attention_research.cli.arguments import Overrides, Parser, json_option, nearest, no_overrides, print_json
from attention_research.errors import ConfigError

#: Benchmark -> what it measures.
BENCHMARKS = {
    "attention": "time and memory of attention on a CPU, beside jax.nn and PyTorch",
    "decode": "decoding with a cache on a CPU, beside Hugging Face",
    "devices": "memory per device and communication of a training step, by number of devices",
    "narang2021": "a training step of each of the 52 Transformers of Narang et al. 2021",
    "recurrent": "GRU, LSTM and RNNsearch on a CPU, beside PyTorch",
    "replicas": "several seeds trained in one program, and one after another",
    "scaling": "time and memory of efficient and exact attention by sequence length",
    "sweeps": "the overhead of the runners of studies",
    "train": "a training step of a causal language model on a CPU, beside PyTorch",
    "translate": "a whole translation job on one core, beside JoeyNMT",
}
#: Benchmarks with options of their own.
OTHERS = ("accelerator", "blocks", "nanogpt", "pronunciation", "state")


def options(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", metavar="WHAT", help=f"the benchmark: {', '.join(BENCHMARKS)}")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.what is None and arguments.json:
        return print_json([{"name": name, "title": text} for name, text in BENCHMARKS.items()])
    if arguments.what is None:
        print("\n".join(f"{name:<12} {text}" for name, text in BENCHMARKS.items()))
        return 0
    if arguments.what in OTHERS:
        module = f"attention_research.benchmarks.{arguments.what}"
        raise ConfigError(f"{arguments.what}: has options of its own; run python -m {module} --help")
    if arguments.what not in BENCHMARKS:
        raise ConfigError(f"{arguments.what}: no such benchmark{nearest(arguments.what, list(BENCHMARKS))}")
    importlib.import_module(f"attention_research.benchmarks.{arguments.what}").main(arguments.json)
    return 0

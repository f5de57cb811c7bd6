"""Memory per device and communication between devices, by number of devices, for a training step.

    attention-research bench devices [--json]

The model is the base Transformer of Vaswani et al. 2017 with packed batches. The table has each axis of the mesh alone
and some combinations. Split positions use attention of kind `ring`, and split experts a Switch layer. The step is
compiled for simulated devices and not run: bytes are read from the compiled program (`attention-research inspect`
prints them for any config). They are the same on every machine with one exception: the CPU backend of XLA keeps an
all-reduce that the GPU and TPU backends turn into a reduce-scatter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ._interleaved import ROOT, log, made, present, versions

CONFIG = "translation/transformer:vaswani_base"
COUNTS = (1, 2, 4, 8)
#: Axis of the mesh -> further settings that it needs.
KINDS = {
    "sequence": [
        "model.self_attention.kind=ring",
        "model.decoder.cross_attention.kind=ring",
        "data.batching.kind=buckets",  # the ring takes no packed rows
        "data.batching.boundaries=(256,)",
    ],
    "expert": ["model.feed_forward={'kind': 'switch', 'num_experts': 8, 'expert': {'hidden_width': 2048}}"],
}
AXES = ("data", "fsdp", "tensor", "sequence", "expert")
PRODUCTS = ({"data": 2, "fsdp": 4}, {"fsdp": 4, "tensor": 2}, {"data": 2, "fsdp": 2, "tensor": 2})


def inspected(config: str, sizes: dict[str, int]) -> dict[str, Any]:
    """The bytes that a device stores ("held"), and the bytes of its communication in one step by kind of collective
    ("said")."""
    kinds = next((settings for axis, settings in KINDS.items() if sizes.get(axis)), [])
    options = [*kinds, *(f"parallel.mesh.{axis}={size}" for axis, size in {"data": 1, **sizes}.items())]
    command = [sys.executable, "-m", "attention_research", "inspect", f"--config={config}", "--json"]
    command += [f"--config.{option}" for option in options]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    alone = {"bytes_per_device": found["state_bytes"], "collectives": []}
    partition = found["partition"] or alone
    said: dict[str, int] = {}
    for one in partition["collectives"]:
        said[one["kind"]] = said.get(one["kind"], 0) + one["bytes"]
    return {"mesh": sizes, "held": partition["bytes_per_device"], "said": said}


def measure(config: str = CONFIG, counts: Sequence[int] = COUNTS) -> dict[str, Any]:
    """Measures the whole table and returns a JSON document."""
    rows = []
    for sizes in [*({axis: count} for axis in AXES for count in counts), *PRODUCTS]:
        rows.append(inspected(config, sizes))
        log(f"{sizes}: {rows[-1]['held']:,} bytes a device")
    return {"benchmark": "devices", "shape": {"config": config}, **made(), "versions": versions("jax"), "rows": rows}


def show(document: dict[str, Any]) -> None:
    """Prints one line for each mesh."""
    for row in document["rows"]:
        mesh = " x ".join(f"{axis} {size}" for axis, size in row["mesh"].items())
        said = ", ".join(f"{kind} {count / 1e6:,.1f} MB" for kind, count in sorted(row["said"].items())) or "nothing"
        print(f"  {mesh:<28} {row['held'] / 1e6:8,.1f} MB per device   {said}")


def main(json: bool = False, config: str = CONFIG, counts: Sequence[int] = COUNTS) -> None:
    """Prints a table, or with `json` one JSON document."""
    present(measure(config, counts), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--config", default=CONFIG)
    given = parser.parse_args()
    main(given.json, given.config)

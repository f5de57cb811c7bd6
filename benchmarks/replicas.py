"""Random seeds side by side in one program against one run after another: whole `train` commands, compilation included.

    attention-research bench replicas [--json]

The quick study's model. All runs share one compilation cache, empty at first, as a user's do: of the single runs the
first one alone compiles. All see the batches in the order of the first seed, as replicas do (`training.data_seed`), and
afterwards each seed's losses are compared with those of its own run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._interleaved import ROOT, log, made, present, print_targets, target, versions

CONFIG = "configs/translation/transformer.py:quick"
SEEDS, STEPS, TARGET = 8, 50, 0.6


def train(workdir: Path, cache: Path, steps: int, **settings: int) -> float:
    """Seconds that the command took."""
    given = {"steps": steps, "checkpoint_every": steps, "eval_every": steps, "log_every": 10, **settings}
    command = [sys.executable, "-m", "attention_research", "train", f"--config={CONFIG}", f"--workdir={workdir}"]
    command += [f"--config.training.{name}={value}" for name, value in given.items()]
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def losses(workdir: Path) -> dict[tuple[int, int], float]:
    """(seed, step) -> the training loss."""
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return {(line["seed"], line["step"]): line["loss"] for line in lines if line["split"] == "train"}


def measured(seeds: int, steps: int) -> dict[str, Any]:
    """Seconds of both ways, their ratio, and the largest difference of a loss."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder / "data", folder / "throw away", 1)  # what the data take is no part of it
        together = train(folder / "together", folder / "cache of one", steps, replicas=seeds)
        log(f"{seeds} seeds in one program: {together:.1f} s")
        each = []
        for seed in range(seeds):
            each.append(train(folder / str(seed), folder / "cache of many", steps, seed=seed, data_seed=0))
            log(f"seed {seed} alone: {each[-1]:.1f} s")
        found = losses(folder / "together")
        alone = {key: loss for seed in range(seeds) for key, loss in losses(folder / str(seed)).items()}
        assert found.keys() == alone.keys()
        return {
            "together_s": together,
            "alone_s": each,
            "ratio": together / sum(each),
            "largest_difference": max(abs(found[key] - alone[key]) for key in alone),
        }


def measure(seeds: int = SEEDS, steps: int = STEPS) -> dict[str, Any]:
    """The whole benchmark as one JSON document."""
    found = measured(seeds, steps)
    return {
        "benchmark": "replicas",
        "shape": {"config": CONFIG, "seeds": seeds, "updates": steps},
        **made(),
        "versions": versions("jax", "jaxlib"),
        **found,
        "targets": [target("seeds in one program / one after the other", found["ratio"], at_most=TARGET)],
    }


def show(document: dict[str, Any]) -> None:
    """Two lines and the target."""
    print(f"  in one program      {document['together_s']:8.1f} s")
    print(f"  one after the other {sum(document['alone_s']):8.1f} s, the first {document['alone_s'][0]:.1f} s")
    print(f"  losses differ by at most {document['largest_difference']:.1e}")
    print_targets(document["targets"])


def main(json: bool = False, seeds: int = SEEDS, steps: int = STEPS) -> None:
    """Measures and prints: tables, or with `json` one JSON document."""
    present(measure(seeds, steps), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    main(given.json, given.seeds, given.steps)

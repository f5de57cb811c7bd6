"""Compares training several random seeds in one program with single runs, by whole `train` commands with compilation.

    attention-research bench replicas [--json] [--config=FILE.py:SCALE]

The model is that of the quick study. The single runs share a compilation cache, which is empty at first, so only the
first run compiles. A half and a quarter of the seeds in one program are measured too. The speed after compilation is
taken from the logs of the runs. All runs see the batches in the order of the first seed, as replicas do
(`training.data_seed`). Finally, the losses of each seed are compared with those of its single run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ._interleaved import ROOT, log, made, present, print_targets, target, versions

CONFIG = "translation/transformer:vaswani_cpu"
SEEDS, STEPS, TARGET = 8, 200, 0.6  # the rows of the study have the same number of updates


def train(config: str, workdir: Path, cache: Path, steps: int, **settings: int) -> float:
    """Runs the command `train` and returns its seconds."""
    given = {"steps": steps, "checkpoint_every": steps, "eval_every": steps, "log_every": 10, **settings}
    command = [sys.executable, "-m", "attention_research", "train", f"--config={config}", f"--workdir={workdir}"]
    command += [f"--config.training.{name}={value}" for name, value in given.items()]
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def losses(workdir: Path) -> dict[tuple[int, int], float]:
    """(seed, step) -> training loss."""
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return {(line["seed"], line["step"]): line["loss"] for line in lines if line["split"] == "train"}


def speed(workdir: Path, replicas: int = 1) -> float:
    """The tokens per second of all replicas together: the median over the logged intervals except the first, which
    includes compilation."""
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    first, *rest = {line["step"]: line["tokens_per_second"] for line in lines if line["split"] == "train"}.values()
    return replicas * statistics.median(rest or [first])


def measured(config: str, seeds: int, steps: int) -> dict[str, Any]:
    """The seconds of both ways, their ratio, the speeds, and the largest difference between losses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(config, folder / "data", folder / "throw away", 1)  # prepares the data, which is not measured
        by_seeds = {}
        for some in sorted({max(1, seeds // 4), max(1, seeds // 2), seeds}):
            run = folder / f"together {some}"
            by_seeds[some] = {"seconds": train(config, run, folder / f"cache of {some}", steps, replicas=some)}
            by_seeds[some]["tokens_per_second"] = speed(run, some)
            log(f"{some} seeds in one program: {by_seeds[some]['seconds']:.1f} s")
        together = by_seeds[seeds]["seconds"]
        each = []
        for seed in range(seeds):
            own = folder / str(seed)
            each.append(train(config, own, folder / "cache of many", steps, seed=seed, data_seed=0))
            log(f"seed {seed} alone: {each[-1]:.1f} s")
        found = losses(folder / f"together {seeds}")
        alone = {key: loss for seed in range(seeds) for key, loss in losses(folder / str(seed)).items()}
        assert found.keys() == alone.keys()
        return {
            "together_s": together,
            "alone_s": each,
            "by_seeds": by_seeds,
            "alone_tokens_per_second": statistics.median(speed(folder / str(seed)) for seed in range(seeds)),
            "ratio": together / sum(each),
            "largest_difference": max(abs(found[key] - alone[key]) for key in alone),
        }


def measure(config: str = CONFIG, seeds: int = SEEDS, steps: int = STEPS) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    found = measured(config, seeds, steps)
    return {
        "benchmark": "replicas",
        "shape": {"config": config, "seeds": seeds, "updates": steps},
        **made(),
        "versions": versions("jax", "jaxlib"),
        **found,
        "targets": [target("seeds in one program / one after the other", found["ratio"], at_most=TARGET)],
    }


def show(document: dict[str, Any]) -> None:
    """Prints a line for each way, a line for each number of seeds, and the target."""
    print(f"  in one program      {document['together_s']:8.1f} s")
    print(f"  one after the other {sum(document['alone_s']):8.1f} s, the first {document['alone_s'][0]:.1f} s")
    alone = document["alone_tokens_per_second"]
    for seeds, found in document["by_seeds"].items():
        rate = found["tokens_per_second"]
        speeds = f"{rate:,.0f} tokens/s, {rate / alone:.2f} x one seed"
        print(f"  {seeds} seeds: {found['seconds']:.1f} s; after compilation {speeds}")
    print(f"  losses differ by at most {document['largest_difference']:.1e}")
    print_targets(document["targets"])


def main(json: bool = False, config: str = CONFIG, seeds: int = SEEDS, steps: int = STEPS) -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(config, seeds, steps), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    main(given.json, given.config, given.seeds, given.steps)

"""Trains nanoGPT's model of characters with this library and in PyTorch, side by side on the same text.

    python -m benchmarks.nanogpt [--json] [--steps=2000] [--every=250] [--smoke]

The recipe is the one that nanoGPT's README gives for a CPU (`configs/language_modelling/nanogpt.py:cpu`), the text is
`shakespeare/plays`. In PyTorch (`_torch_nanogpt`), the model is written from the description of the program. "torch"
begins with our weights and reads our batches, so that its losses differ from ours by rounding alone, until training
magnifies it. "torch, own start" draws its weights and batches itself; its distance from "torch" is that of another
seed. Systems take turns of `every` updates; the loss over the whole validation text is computed between the turns and
is not part of the time. The process runs on one core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

from ._interleaved import KEEP_PAGES, log, made, present, print_targets, serves, target, versions, worker

MODULE = __spec__.name
CONFIG = "language_modelling/nanogpt"
SYSTEMS = ("ours", "torch", "torch, own start")


class Ours:
    """Our training of a config, with the interface of `_torch_nanogpt.Loop`."""

    def __init__(self, trainer: Any):
        self.trainer, self.state = trainer, trainer.execution.start()

    def compile(self, batch: Any) -> None:
        """Compiles an update, on a state of its own."""
        execution = self.trainer.execution
        execution.step(execution.start(), execution.place(batch))

    def step(self, batch: Any) -> float:
        """An update; returns the loss before it."""
        execution = self.trainer.execution
        self.state, metrics = execution.step(self.state, execution.place(batch))
        return float(metrics["loss"])

    def evaluated(self, batches: Any) -> float:
        """The mean loss over all targets of some batches."""
        from attention_research.training.trainer import mean_losses, of_replica

        model = of_replica(self.trainer.execution.plain(self.state), 0, 1)
        pairs = ((batch["target"][:, 0], batch) for batch in batches)
        return mean_losses(self.trainer.evaluation_step(), model, pairs)["loss"]


def train_worker(variant: str, steps: int, every: int) -> dict[str, Any]:
    """Trains the three systems in turn. Returns the losses and the times."""
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # before the libraries make their threads
    import jax
    import torch

    from attention_research.config import load
    from attention_research.training.trainer import Trainer

    from ._torch_nanogpt import Loop

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    trainer = Trainer(load(f"{CONFIG}:{variant}"))
    resolved, data = trainer.config.resolved, trainer.data.prepare(log)
    ours = Ours(trainer)
    ours.compile(data.batch_at(0, 0, resolved["training"]["batch_size"]))
    parameters = jax.device_get(ours.state["parameters"])
    make = lambda draw: Loop(parameters, resolved["training"], heads=resolved["model"]["num_heads"], draw=draw)
    systems: dict[str, Any] = dict(zip(SYSTEMS, (ours, make(False), make(True)), strict=True))
    validation = [batch for _, batch in data.evaluation_batches("validation", 64)]
    size = resolved["training"]["batch_size"]
    losses: dict[str, list[float]] = {name: [] for name in systems}
    checks: dict[str, list[float]] = {name: [system.evaluated(validation)] for name, system in systems.items()}
    turns: dict[str, list[float]] = {name: [] for name in systems}
    for first in range(0, steps, every):
        for name, system in systems.items():
            batches = [data.batch_at(name == SYSTEMS[2], first + i, size) for i in range(min(every, steps - first))]
            begin = time.perf_counter()
            losses[name] += [system.step(batch) for batch in batches]
            turns[name].append(1e3 * (time.perf_counter() - begin) / len(batches))
            checks[name].append(system.evaluated(validation))
        log(f"{first + len(batches):,} updates: " + ", ".join(f"{name} {of[-1]:.4f}" for name, of in checks.items()))
    counts = {"ours": trainer.parameter_count, "torch": sum(p.numel() for p in systems["torch"].model.parameters())}
    return {
        "parameters": counts,
        "first_losses": {name: of[:20] for name, of in losses.items()},
        "validation": {name: [round(value, 5) for value in of] for name, of in checks.items()},
        "milliseconds_a_step": {
            name: {"median_ms": round(statistics.median(of), 2), "low_ms": round(min(of), 2),
                   "high_ms": round(max(of), 2), "samples": len(of)}
            for name, of in turns.items()
        },
    }  # fmt: skip


def measure(steps: int, every: int, variant: str) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    document: dict[str, Any] = {
        "benchmark": "nanogpt",
        "shape": {"config": f"{CONFIG}:{variant}", "steps": steps, "every": every},
        **made(),
        "versions": versions("jax", "jaxlib", "torch"),
        **worker(MODULE, KEEP_PAGES, "train", variant, str(steps), str(every)),
    }
    ours, same, other = (document["validation"][name] for name in SYSTEMS)
    apart = lambda one, two: max(abs(a - b) for a, b in zip(one[1:], two[1:], strict=True))
    times = document["milliseconds_a_step"]
    document["differences"] = {"ours and torch": apart(ours, same), "two starts of torch": apart(same, other)}
    document["targets"] = [
        target("largest difference at a check, ours and torch", apart(ours, same), at_most=0.03),
        target("a step: ours / torch", times["ours"]["median_ms"] / times["torch"]["median_ms"], at_most=1.0),
    ]
    return document


def show(document: dict[str, Any]) -> None:
    """Prints the losses at the checks and the times."""
    for name, losses in document["validation"].items():
        print(f"  {name:18s} " + " ".join(f"{value:.3f}" for value in losses))
    for name, row in document["milliseconds_a_step"].items():
        print(f"  {name:18s} {row['median_ms']:.1f} ms a step ({row['low_ms']:.1f}-{row['high_ms']:.1f})")
    print_targets(document["targets"])


if __name__ == "__main__" and not serves({"train": train_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=2000, help="updates of each system")
    parser.add_argument("--every", type=int, default=250, help="updates between two checks")
    parser.add_argument("--smoke", action="store_true", help="a small model that learns nothing")
    given = parser.parse_args()
    present(measure(given.steps, given.every, "smoke" if given.smoke else "cpu"), given.json, show)

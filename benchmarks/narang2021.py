"""Times a training step of each of the 52 Transformers of Narang et al. 2021, interleaved in one process.

    python -m benchmarks.narang2021 [--json] [--rounds=5] [--scale=cpu] [--rows=geglu,swiglu]

The rows are those of the study `narang2021/table1` at a scale. Each has its own model, loss and optimizer, a batch of
random tokens of full length, and one seed. The steps per second of the study itself are from runs at different times on
a shared machine; the interleaved times here are comparable. They are printed with the Spearman correlation to the
column of the paper (TPU v2, 223M parameters).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attention_research.errors import RunError

from ._interleaved import (
    KEEP_PAGES,
    interleaved,
    log,
    made,
    present,
    print_times,
    serves,
    versions,
    worker,
)

#: Memory mappings per compiled step. With 46 steps, the default limit of Linux (65,530) was not enough.
MAPS = 2000
MODULE, STUDY = __spec__.name, "narang2021/table1"


def study() -> Any:
    """The study of the table."""
    from attention_research.studies import load_study

    return load_study(STUDY)


def step_of(config: Any) -> Callable[[], None]:
    """A function that performs one update and waits for it."""
    import jax
    import numpy as np

    from attention_research.training.trainer import Trainer

    trainer = Trainer(config)
    execution, held = trainer.execution, {}
    (shapes,) = trainer.data.train_shapes(config.resolved["training"]["batch_size"])
    words = config.resolved["vocabulary_size"] - config.resolved["data"]["sentinels"]
    rng = np.random.default_rng(0)
    batch = execution.place({name: rng.integers(4, words, shape).astype(np.int32) for name, shape in shapes.items()})

    def step() -> None:
        state, _ = execution.step(held.pop("state") if held else execution.start(), batch)
        held["state"] = jax.block_until_ready(state)

    return step


def check_maps(rows: int) -> None:
    """Raises RunError if Linux allows fewer memory mappings than this number of compiled programs needs."""
    path = Path("/proc/sys/vm/max_map_count")
    allowed = int(path.read_text()) if path.exists() else MAPS * rows
    if allowed < MAPS * rows:
        raise RunError(
            f"{rows} compiled programs in one process need more than {allowed:,} memory mappings: "
            f"sysctl -w vm.max_map_count={MAPS * rows} (or fewer --rows)"
        )


def time_worker(scale: str, rounds: int, wanted: str) -> dict[str, Any]:
    """{row: times of a step}."""
    from attention_research.studies.trials import configuration

    steps, made_of = {}, study()
    for row in made_of.rows_at(scale, wanted.split(",") if wanted else None):
        steps[row.id] = step_of(configuration(made_of, scale, row))
        steps[row.id]()
        log(f"compiled {row.name}")
    return interleaved(steps, int(rounds))


def measure(scale: str = "cpu", rounds: int = 5, rows: str = "") -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    from attention_research.studies.results import published
    from attention_research.studies.significance import rank_correlation

    check_maps(len(rows.split(",")) if rows else len(study().rows_at(scale)))
    times, printed = worker(MODULE, KEEP_PAGES, "time", scale, str(rounds), rows), published(study())
    found = {row: one for row, one in times.items() if isinstance(one, dict)}
    ours = {row: 1e3 / one["median_ms"] for row, one in found.items()}
    both = [row for row in ours if row in printed]
    order = None
    if len(both) >= 4:
        theirs = [float(printed[row]["steps a second"]) for row in both]
        order = str(rank_correlation([ours[row] for row in both], theirs))
    return {
        "benchmark": "narang2021: steps of training",
        "shape": {"study": STUDY, "scale": scale, "rows": len(found)},
        **made(),
        "versions": versions("jax", "jaxlib", "flax", "optax"),
        "times": times,
        "steps_per_second": {row: round(value, 3) for row, value in ours.items()},
        "paper_steps_per_second": {row: float(printed[row]["steps a second"]) for row in both},
        "rank_correlation": order,
        "targets": [],
    }


def show(document: dict[str, Any]) -> None:
    """Prints the tables."""
    print_times("step", document["times"])
    base = statistics.median(document["steps_per_second"].values())
    print(f"  median row {base:.2f} steps/s; Spearman correlation with the paper {document['rank_correlation']}")


def main(json: bool = False, scale: str = "cpu", rounds: int = 5, rows: str = "") -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(scale, rounds, rows), json, show)


if __name__ == "__main__" and not serves({"time": time_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="", help="comma-separated ids of rows (default: all)")
    given = parser.parse_args()
    main(given.json, given.scale, given.rounds, given.rows)

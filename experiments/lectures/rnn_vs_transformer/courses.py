"""The error rate of every checkpoint against the time of training: the measurement of a run, and functions that read
the results."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, between


def measure_course(*, workdir: Path, words: int, seed: int, **_: Any) -> dict[str, Any]:
    """Measures the error rate of every checkpoint on some test words with the seconds of training until then, the
    target tokens per second, and the longest chain of dependent matrix products in the gradient of one update."""
    import jax
    import jax.numpy as jnp

    from attention_research.accounting.depth import measure_depth
    from attention_research.tasks.error_rate import error_rates
    from attention_research.training.evaluation import Trained
    from attention_research.training.metrics_log import read_metrics
    from attention_research.workdirs.reading import seconds_a_step

    trained = Trained(workdir)
    lines = [line for line in read_metrics(workdir) if line["split"] == "train"]
    a_step = seconds_a_step(lines)
    steps = sorted(int(path.name) for path in (workdir / "checkpoints").iterdir() if path.name.isdigit())
    sources, references = trained.data.text("test")
    errors = []
    for step in steps:
        model = Trained(workdir, checkpoint=step).model()
        batches = trained.data.evaluation_batches("test", 64, examples=words)
        texts = trained.translations(model, batches)
        wanted, read = ([side[i] for i in texts] for side in (references, sources))
        errors.append(error_rates(list(texts.values()), wanted, read)[0])
    shape = max(trained.data.train_shapes(trained.settings.batch_size), key=lambda s: s["target"][1])
    batch = {name: jax.ShapeDtypeStruct(size, jnp.int32) for name, size in shape.items()}
    parameters, statistics_ = trained.model()
    merge, task = trained.trainer.structure.merge, trained.trainer.task
    loss = lambda parameters, batch: task.loss(merge(parameters, statistics_), batch, None)[0]
    depth = measure_depth(jax.value_and_grad(loss), parameters, batch)
    speeds = [line["tokens_per_second"] for line in lines if line.get("tokens_per_second")]
    return {
        "steps": steps,
        "clock": [None if a_step is None else a_step * step for step in steps],
        "errors": errors,
        "tokens_per_second": statistics.median(speeds) if speeds else None,
        "chain": depth.chain,
        "parallel": depth.parallel_fraction,
    }


def at_equal_time(results: Results, better: str, worse: str) -> Comparison:
    """Compares the error rates of two rows for each seed at the last time that both reached, with linear interpolation
    between checkpoints. Before training the rate is 100 %."""
    gains = []
    for ours, theirs in zip(courses(results, better), courses(results, worse), strict=False):
        moment = min(ours[-1][0], theirs[-1][0])
        gains.append(_between(theirs, moment) - _between(ours, moment))
    if not gains:
        return Comparison(better, worse, None, f"errors over time of {better} and {worse} not measured")
    none = [0.0] * len(gains)
    return between("the difference", "none", gains, none, f"errors of {worse} minus {better}, in points", in_pairs=True)


def courses(results: Results, row: str) -> list[list[tuple[float, float]]]:
    """For each finished seed, (seconds of training, error rate) of its checkpoints."""
    found = [entry.result["stages"].get("measure", {}) for entry in results.of(row) if entry.result]
    return [list(zip(one["clock"], one["errors"], strict=True)) for one in found if one.get("clock", [None])[-1]]


def _between(course: list[tuple[float, float]], moment: float) -> float:
    points = [(0.0, 100.0), *course]
    for (before, high), (after, low) in zip(points, points[1:], strict=False):
        if moment <= after:
            return high + (low - high) * (moment - before) / (after - before)
    return points[-1][1]


def seconds_to_loss(results: Results, row: str, wanted: float) -> list[float]:
    """For each seed, the seconds of training until the mean of five logged losses is at most `wanted`, or infinity if
    it never is."""
    found = []
    for entry in results.of(row):
        if entry.result and (speed := entry.result["stages"].get("train", {}).get("steps_per_second")):
            curve = entry.result["curves"].get("train", [])
            means = [(step, statistics.fmean(v for _, v in curve[max(0, i - 4) : i + 1])) for i, (step, _) in
                     enumerate(curve)]  # fmt: skip
            found.append(next((step / speed for step, mean in means if mean <= wanted), float("inf")))
    return found

"""BLEU of every checkpoint against the time of training, for `lectures/rnn_vs_transformer`.

This module holds the measurement of a run, functions that read the results, and the figure. It defines no study.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, between

#: The models of all figures; a model has the same style in each.
MODELS = (
    "vanilla RNN",
    "LSTM",
    "LSTM with attention",
    "RNNsearch (GRU)",
    "Transformer",
    "Transformer without positions",
)


def measure_course(*, workdir: Path, sentences: int, seed: int, **_: Any) -> dict[str, Any]:
    """Measures BLEU of every checkpoint on some test sentences with the seconds of training until then, the target
    tokens per second, and the longest chain of dependent matrix products in the gradient of one update."""
    import jax
    import jax.numpy as jnp

    from attention_research.accounting.depth import measure_depth
    from attention_research.tasks.evaluation import corpus_bleu
    from attention_research.training.evaluation import Trained
    from attention_research.training.workdir import read_metrics
    from attention_research.workdirs.reading import seconds_a_step

    trained = Trained(workdir)
    lines = [line for line in read_metrics(workdir) if line["split"] == "train"]
    a_step = seconds_a_step(lines)
    steps = sorted(int(path.name) for path in (workdir / "checkpoints").iterdir() if path.name.isdigit())
    sources, references = trained.data.text("test")
    bleus = []
    for step in steps:
        model = Trained(workdir, checkpoint=step).model()
        batches = trained.data.evaluation_batches("test", 64, examples=sentences)
        texts = trained.translations(model, batches)
        bleus.append(corpus_bleu(list(texts.values()), [references[i] for i in texts])[0])
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
        "bleus": bleus,
        "tokens_per_second": statistics.median(speeds) if speeds else None,
        "chain": depth.chain,
        "parallel": depth.parallel_fraction,
    }


def at_equal_time(results: Results, better: str, worse: str) -> Comparison:
    """Compares BLEU of two rows for each seed at the last time that both reached, with linear interpolation between
    checkpoints."""
    gains = []
    for ours, theirs in zip(courses(results, better), courses(results, worse), strict=False):
        moment = min(ours[-1][0], theirs[-1][0])
        gains.append(_between(ours, moment) - _between(theirs, moment))
    if not gains:
        return Comparison(better, worse, None, f"BLEU over time of {better} and {worse} not measured")
    none = [0.0] * len(gains)
    return between("the difference", "none", gains, none, f"BLEU of {better} minus {worse}", in_pairs=True)


def courses(results: Results, row: str) -> list[list[tuple[float, float]]]:
    """For each finished seed, (seconds of training, BLEU) of its checkpoints."""
    found = [entry.result["stages"].get("measure", {}) for entry in results.of(row) if entry.result]
    return [list(zip(one["clock"], one["bleus"], strict=True)) for one in found if one.get("clock", [None])[-1]]


def _between(course: list[tuple[float, float]], moment: float) -> float:
    points = [(0.0, 0.0), *course]
    for (before, low), (after, high) in zip(points, points[1:], strict=False):
        if moment <= after:
            return low + (high - low) * (moment - before) / (after - before)
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


def draw_course(results: Results, folder: Path) -> Figure | None:
    """Draws BLEU of the checkpoints against seconds of training, one line per seed."""
    found = {row.name: c for row in results.study.rows if (c := courses(results, row.id))}
    if not found:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8.5, 5))
    style_of = styles_of([*MODELS, *found])
    for name, seeds in found.items():
        for number, course in enumerate(seeds):
            axis.plot(*zip(*course, strict=True), label=name if number == 0 else None, linewidth=1.2, markersize=4,
                      **style_of[name])  # fmt: skip
    axis.set_xlabel("seconds of training")
    axis.set_ylabel("BLEU on test sentences")
    legend(figure, columns=3)
    where = folder / "bleu_over_time.png"
    save(
        figure,
        where,
        caption(
            results,
            "one line per seed, one mark per checkpoint",
            rows=[row.id for row in results.study.rows if row.name in found],
        ),
    )
    last = "; ".join(f"{name} {seeds[0][-1][1]:.1f} after {seeds[0][-1][0]:.0f} s" for name, seeds in found.items())
    return Figure(where, "BLEU against training time", f"First seeds end at: {last}.")

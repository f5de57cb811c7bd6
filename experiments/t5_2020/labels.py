"""Fine-tuning on different numbers of labels, pre-trained and from scratch: stages, columns and figure of both studies.

    topic      news/bbc       from the beginning of a story to one of five classes
    sentiment  reviews/imdb   from the beginning of a review to positive or negative

Both tasks are text to text, with the same number of steps for any number of labels. Pre-training uses the training
reviews without their labels, and no stories.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.studies import Stage, finetune, text_to_text
from attention_research.studies.columns import Column, fixed
from attention_research.studies.figures import Figure, canvas, caption, rows_as_points, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

SETS = {"topic": ("news/bbc", "topic: "), "sentiment": ("reviews/imdb", "sentiment: ")}
#: The numbers of training labels. At `smoke` only the first is used.
LABELS = (100, 400, 1600)
#: The overrides of a row that is not pre-trained: one step with a learning rate that changes nothing.
SCRATCH = {"training.steps": 1, "training.learning_rate": 1e-30, "training.eval_every": 1}
#: Scale -> longest source, steps, batch size, learning rate, number of test examples (None: all).
SIZES = {
    "paper": (512, 262_144, 128, 0.001, None),
    "cpu": (64, 400, 16, 0.01, 512),
    "smoke": (64, 2, 4, 0.01, 8),
}


def settings(task: str, labels: int, scale: str) -> dict[str, Any]:
    """The overrides of a fine-tuning at a scale."""
    (name, prefix), (longest, steps, batch_size, rate, examples) = SETS[task], SIZES[scale]
    data = {"name": name, "prefix": prefix, "source": ("text",), "target": "label"}
    fine_tuning = text_to_text(
        {**data, "train_examples": 10 if scale == "smoke" else labels},
        (longest, 4),
        ("accuracy",),
        steps=steps,
        batch_size=batch_size,
        examples=examples,
        scored_together=16 if scale == "smoke" else 64,
    )
    return {**fine_tuning, "training.learning_rate": rate}


def stages() -> tuple[Stage, ...]:
    """The stages: a fine-tuning for each task and number of labels."""
    return tuple(
        finetune(name_of(task, labels), settings(task, labels, "paper"),
                 at={scale: settings(task, labels, scale) for scale in SIZES})
        for task in SETS for labels in LABELS
    )  # fmt: skip


def name_of(task: str, labels: int) -> str:
    """The name of a fine-tuning, which is the prefix of its result keys."""
    return f"{task}-{labels}"


COLUMNS = tuple(
    Column(f"{name_of(task, labels)}.accuracy", f"{task}, {labels} labels", fixed(1), better="higher")
    for task in SETS
    for labels in LABELS
)


def against_scratch(results: Results, scratch: Mapping[str, str]) -> Verdict:
    """Every pre-trained row is better than its row from scratch, at every number of labels of every task."""
    fine_tunings = [name_of(task, labels) for task in SETS for labels in LABELS]
    cases = {
        f"{row}, {name}": compare(results, row, untrained, f"{name}.accuracy", higher=True)
        for row, untrained in scratch.items()
        for name in fine_tunings
    }
    return conclude(cases)


def curves(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy of each row: one panel per task and number of labels, one point per seed."""
    rows = [row for row in results.rows if results.values(row.id, COLUMNS[-1].key)]
    if not rows:
        return None
    pyplot, path = canvas(), folder / "labels.png"
    figure, axes = pyplot.subplots(
        len(SETS), len(LABELS), figsize=(10, len(SETS) * (0.9 + 0.26 * len(rows))), squeeze=False, sharey=True
    )
    for line, task in zip(axes, SETS, strict=True):
        for axis, n in zip(line, LABELS, strict=True):
            key = f"{name_of(task, n)}.accuracy"
            rows_as_points(axis, {row.name: results.values(row.id, key) for row in rows})
            axis.set_title(f"{task} ({SETS[task][0]}),\n{n:,} labels", fontsize=9.5)
    for axis in axes[-1]:
        axis.set_xlabel("accuracy, %")
    save(figure, path, caption(results, "points: seeds, bars: mean", rows=[row.id for row in rows]))
    return Figure(path, "Accuracy by number of labels", "Pre-trained and from scratch, one point per seed.")

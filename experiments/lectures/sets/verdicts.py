"""The verdict and the figure of `lectures/sets`."""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, conclude, decide

from .tasks import TASKS

MODELS = {
    "attention": "self-attention",
    "attention_positions": "self-attention, sinusoids",
    "rnn": "recurrent",
    "mean": "mean of embeddings",
}
#: A model depends on the order if its answers change for more than this share of sets.
CHANGED = 0.001
#: The training data -> the key of the accuracy on sets in any order.
TRAINED = {"trained on any order": "accuracy", "trained on ascending sets": "sorted_accuracy"}


def suits_sets(results: Results) -> Verdict:
    """Self-attention without positions gives the same answers in every order, and is better than the recurrence, for
    every task and for training on any order and on ascending sets."""
    cases = {
        f"{task}, {how}": compare(results, f"{task}_attention", f"{task}_rnn", f"measure.{key}", higher=True)
        for task in TASKS
        for how, key in TRAINED.items()
    }
    verdict = conclude(cases)
    said, changes = [], []
    for task in TASKS:
        for model, name in MODELS.items():
            found = [results.values(f"{task}_{model}", f"measure.{key}") for key in ("changed", "sorted_changed")]
            if all(found):
                means = [statistics.fmean(values) for values in found]
                said.append(f"{task}, {name}: {means[0]:.1%} of answers change, {means[1]:.1%} with ascending training")
                changes += means if model == "attention" else []
    same = Case(UNMEASURED)
    if changes:
        same = Case.ruled(max(changes) <= CHANGED, f"at most {max(changes):.1%} of its answers change")
    return decide({**verdict.cases, "self-attention answers alike in every order": same}, *said)


def draw_orders(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy in every order of the test sets, one panel per task, and below it the share of answers that
    change.

    Filled marks are models trained on any order, open marks are models trained on ascending sets, and crosses are the
    latter tested in ascending order.
    """
    tasks = [task for task in TASKS if any(results.values(f"{task}_{model}", "measure.accuracy") for model in MODELS)]
    if not tasks:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(2, len(tasks), figsize=(1.6 + 2.9 * len(tasks), 6.4), squeeze=False, sharey="row")
    labels = {"": "trained on any order", "sorted_": "trained on ascending sets"}
    said = []
    for column, task in enumerate(tasks):
        for place, (model, colour) in enumerate(zip(MODELS, COLOURS[1:], strict=False)):
            row = f"{task}_{model}"
            for shift, prefix, face in ((-0.16, "", colour), (0.16, "sorted_", "none")):
                values = [x for seed in results.values(row, f"measure.{prefix}by_order") for x in seed]
                style = {"markeredgecolor": colour, "markerfacecolor": face}
                if (column, place) == (0, 0):
                    grey = {"markeredgecolor": "#666666", "markerfacecolor": "none" if prefix else "#666666"}
                    axes[0, 0].plot([], [], "o", label=labels[prefix], **grey)
                axes[0, column].plot([place + shift] * len(values), values, "o", alpha=0.6, **style)
                changed = results.values(row, f"measure.{prefix}changed")
                axes[1, column].plot([place + shift] * len(changed), changed, "o", **style)
            known = results.values(row, "measure.sorted_ascending")
            axes[0, column].plot([place + 0.32] * len(known), known, "x", color=colour)
            if (column, place) == (0, 0):
                axes[0, 0].plot([], [], "x", color="#666666", label="trained and tested on ascending sets")
            if values := results.values(row, "measure.accuracy"):
                after = statistics.fmean(results.values(row, "measure.sorted_accuracy"))
                said.append(f"{task}, {MODELS[model]} {statistics.fmean(values):.2f} and {after:.2f}")
        blind = next(x for model in MODELS for x in results.values(f"{task}_{model}", "measure.majority"))
        axes[0, column].axhline(blind, color="#888888", linewidth=0.9, linestyle="--", label="majority answer")
        axes[0, column].set_title(f"task: {task}")
        axes[0, column].set_xticks(range(len(MODELS)), [""] * len(MODELS))
        axes[1, column].set_xticks(
            range(len(MODELS)), [textwrap.fill(name, 14) for name in MODELS.values()], rotation=90
        )
        for axis in axes[:, column]:
            axis.set_xlim(-0.5, len(MODELS) - 0.5)
            axis.set_ylim(-0.04, 1.04)
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("share of answers that change\nwith the order of a set")
    legend(figure)
    where = folder / "orders.png"
    save(figure, where, caption(results, "above: one mark per order and seed, below: one mark per seed"))
    said = "; ".join(said)
    return Figure(
        where,
        "Accuracy on sets in other orders",
        f"Accuracy after training on any order and on ascending sets: {said}.",
    )

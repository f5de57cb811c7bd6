"""The rows, the verdict and the figure of `linformer2020/table2`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.comparisons import within
from attention_research.studies.figures import Figure, canvas, caption, rows_as_points, save
from attention_research.studies.results import Results
from attention_research.studies.row_comparisons import averages
from attention_research.studies.verdicts import UNTESTED, Verdict, compare, conclude, margin_of

TASKS = {"sentence": "sentences", "review": "reviews", "topic": "topics"}
#: Row -> name, whether it is run. The published k of 128 and 256 at 512 tokens are compared with 32 and 64 at 128.
ROWS = {
    "full": ("full attention (RoBERTa-base)", True),
    "full_scratch": ("full attention, from scratch", True),
    **{
        f"k_{k}{suffix}": (f"Linformer k = n / {128 // k}{said}", True)
        for k in (32, 64)
        for suffix, said in (("", ""), ("_kv", ", shared keys and values"), ("_layer", ", shared in all layers"))
    },
    "bert": ("BERT-base", False),
    "distilled_bert": ("Distilled BERT", False),
    "long_256": ("n = 1,024: Linformer k = 256", False),
    "long_256_kv": ("n = 1,024: k = 256, shared keys and values", False),
    "long_256_layer": ("n = 1,024: k = 256, shared in all layers", False),
}
LINFORMERS = tuple(id for id in ROWS if id.startswith("k_"))


def average(results: Results, row: str) -> list[float]:
    """Returns the accuracy of each seed that has all tasks, averaged over them."""
    return averages(results, row, [f"{task}.accuracy" for task in TASKS], higher=True)


def stays_near(results: Results) -> Verdict:
    """The accuracy of every Linformer that is run, averaged over tasks, is below that of full attention by less than
    the margin of the claim. The paper's rows lose at most 0.5 points."""
    margin = margin_of(results, "linformer-downstream")
    full, found = average(results, "full"), {row: average(results, row) for row in LINFORMERS}
    if not full or not any(found.values()):
        return Verdict(UNTESTED, "full attention or Linformer is not measured after fine-tuning")
    said = [f"full attention {statistics.fmean(full):.2f} on average"]
    if scratch := average(results, "full_scratch"):
        said.append(f"from scratch {statistics.fmean(scratch):.2f}")
    for row, values in found.items():
        cases = (compare(results, "full", row, f"{task}.accuracy", higher=True).said for task in TASKS)
        said += [f"{ROWS[row][0]}: {' / '.join(cases)}"] if values else []
    run = [row.id for row in results.study.rows_at(results.scale) if row.id in LINFORMERS]
    near = {ROWS[row][0]: within(row, "full", found[row], full, "average", margin, higher=True) for row in run}
    return conclude(near).beside(*said)


VERDICTS = {"linformer-downstream": stays_near}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy of every row, one panel per task, one mark per seed; a line shows the mean of full
    attention."""
    rows = [row for row, (_, runs) in ROWS.items() if runs and average(results, row)]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(TASKS), figsize=(10.5, 1.2 + 0.4 * len(rows)), sharey=True)
    for axis, (task, name) in zip(axes, TASKS.items(), strict=True):
        rows_as_points(axis, {ROWS[row][0]: results.values(row, f"{task}.accuracy") for row in rows})
        if (full := results.mean("full", f"{task}.accuracy")) is not None:
            axis.axvline(full, color="grey", linewidth=1)
        axis.set_title(name, loc="left", fontsize=11)
        axis.set_xlabel("accuracy, %")
    where = folder / "accuracy.png"
    save(figure, where, caption(results, "points: seeds, bars: mean, grey line: mean of full attention", rows=rows))
    said = [f"{ROWS[row][0]} {statistics.fmean(average(results, row)):.1f}" for row in rows]
    return Figure(where, "Accuracy after fine-tuning", f"Means over the tasks: {'; '.join(said)} %.")

"""Gradients through time vanish or explode with distance; attention gives them a path of one step.

    attention-research reproduce lectures/gradients --scale=cpu

There are two kinds of rows. The first kind trains nothing: a cell at initialization reads random vectors. Its
recurrent weights are orthogonal matrices times a gain, so the gain is every singular value. Measured is the norm of the
gradient of a random projection of the last state with respect to the input k steps back. A line is fitted to the log
norm; the table shows its slope in decades per step, its R^2, and the ratio of the farthest to the nearest input. "With
attention" the last state also attends to all states.

The second kind trains sequence-to-sequence models on delayed copying and on agreement with a distant noun
(`data.copying`, generated text), and measures recall by distance.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, measure, train
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, conclude, decide

from ..recall import measure_recall

CONFIG = "configs/copying/recurrent.py"
CELLS = {"vanilla": "vanilla RNN", "gru": "GRU", "lstm": "LSTM"}
GAINS = {"small": 0.5, "one": 1.0, "large": 4.0}
LARGE = ("cpu", "gpu")
TASKS = {"copy": "copying", "agree": "agreement"}
#: As the config's variant of that name.
AGREEMENT = {
    "data": {
        "kind": "agreement",
        "max_delay": 40,
        "subject": "first",
        "batching": {"kind": "buckets", "boundaries": (48,)},
    },
    "training.steps": 600,
    "training.checkpoint_every": 600,
}
GENERAL = {"kind": "global", "score": {"kind": "general"}}
#: The change of the norm counts as roughly exponential if a line explains at least the share EXPONENTIAL of the
#: variance of the log norm, and if the norm changes by at least DECADES decades over the whole distance.
EXPONENTIAL, DECADES = 0.9, 1.0


def measure_path(
    *, cell: str, gain: float, attention: bool, width: int, length: int, rows: int, seed: int, **_: Any
) -> dict[str, Any]:
    """Computes `paths.summary` of a cell with the given gain, on standard normal inputs."""
    import jax
    from flax import nnx

    from attention_research.registry import lookup

    from .paths import gradient_norms, summary, with_gain

    keys = jax.random.split(jax.random.key(seed), 3)
    built = lookup("recurrent_cell", cell)(width=width, input_width=width, rngs=nnx.Rngs(keys[0]))
    x = jax.random.normal(keys[1], (rows, length, width))
    direction = jax.random.normal(keys[2], (rows, width))
    return dict(summary(gradient_norms(with_gain(built, gain), x, direction, attention=attention)))


def path(cell: str, gain: str, *, attention: bool = False) -> Row:
    """A row that trains nothing."""
    return Row(
        f"{cell}_{gain}" + "_attention" * attention,
        f"{CELLS[cell]}, gain {GAINS[gain]:g}" + ", with attention" * attention,
        settings={"cell": cell, "gain": GAINS[gain], "attention": attention},
        scales=None if cell == "vanilla" and gain != "one" else LARGE,
        stages=(measure(measure_path),),
    )


def recalling(task: str, cell: str, *, attention: bool) -> Row:
    """A row that is trained on copying or on agreement."""
    overrides = {"model.cell": {"kind": cell}, "model.alignment": GENERAL if attention else {"kind": "none"}}
    return Row(
        f"{task}_{cell}" + "_attention" * attention,
        f"{TASKS[task]}, {CELLS[cell]}" + ", with attention" * attention,
        {**overrides, **(AGREEMENT if task == "agree" else {})},
        scales=None if (task, cell) == ("copy", "lstm") else LARGE,
        stages=(train, measure(measure_recall)),
    )


BOTH = (False, True)
PATHS = tuple(path(cell, gain, attention=with_it) for cell in CELLS for gain in GAINS for with_it in BOTH)
COPIES = tuple(recalling("copy", cell, attention=with_it) for cell in CELLS for with_it in BOTH)
AGREEMENTS = tuple(recalling("agree", cell, attention=with_it) for cell in ("vanilla", "lstm") for with_it in BOTH)


def vanish_or_explode(results: Results) -> Verdict:
    """Without attention and before training, the log norm is about linear in the distance in every seed. The norm
    changes by at least one decade over the whole length, in the same direction in every seed."""
    cases = {}
    for row in PATHS:
        slopes, fits, changes = (results.values(row.id, f"measure.{name}") for name in ("slope", "fit", "log_ratio"))
        if row.settings["attention"]:
            continue
        if not slopes:
            cases[row.name] = Case.ruled(None)
            continue
        same_way = min(slopes) > 0 or max(slopes) < 0
        far = same_way and min(map(abs, changes)) >= DECADES and min(fits) >= EXPONENTIAL
        way = (" (vanishes)" if max(slopes) < 0 else " (explodes)") if far else ""
        mean = sum(slopes) / len(slopes)
        numbers = f"{mean:+.3f} decades per step{way}, R^2 at least {min(fits):.2f}"
        cases[row.name] = Case.ruled(far, numbers)
    return decide(cases)


def attention_shortens(results: Results) -> Verdict:
    """Attention increases the ratio of the farthest to the nearest gradient where gradients vanish, and it increases
    recall over the longest third of delays."""
    cases = {}
    for cell, name in CELLS.items():
        row = f"{cell}_small"
        cases[f"gradient, {name}"] = compare(results, f"{row}_attention", row, "measure.log_ratio", higher=True)
    for cell, name in CELLS.items():
        row = f"copy_{cell}"
        cases[f"copying, {name}"] = compare(results, f"{row}_attention", row, "measure.far", higher=True)
    return conclude(cases)


def draw_norms(results: Results, folder: Path) -> Figure | None:
    """Draws the log norm against distance: one panel per cell, one colour per gain, dashed lines with attention."""
    curves = {row.id: c for row in PATHS if (c := results.mean_list(row.id, "measure.log_norms"))}
    if not curves:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(CELLS), figsize=(10, 4.6), sharex=True, sharey=True)
    for axis, (cell, name) in zip(axes, CELLS.items(), strict=True):
        for colour, (gain, value) in zip(COLOURS[1:], GAINS.items(), strict=False):
            for suffix, line in (("", "-"), ("_attention", "--")):
                curve = curves.get(f"{cell}_{gain}{suffix}")
                if curve:
                    known = [(k, log) for k, log in enumerate(curve) if not math.isnan(log)]
                    label = f"gain {value:g}" + ", with attention" * bool(suffix)
                    axis.plot(*zip(*known, strict=True), color=colour, linestyle=line, linewidth=1.5, label=label)
        axis.set_title(name, loc="left", fontsize=11)
        axis.set_xlabel("steps back in time")
    axes[0].set_ylabel("log10 of the gradient norm")
    legend(figure, columns=3)
    where = folder / "gradient_norms.png"
    save(figure, where, caption(results, "before training; lines: mean over seeds", rows=list(curves)))
    slopes = "; ".join(
        f"{row.name} {sum(v) / len(v):+.3f}" for row in PATHS if (v := results.values(row.id, "measure.slope"))
    )
    return Figure(where, "Gradient norm by distance before training", f"Decades per step: {slopes}.")


def draw_recall(results: Results, folder: Path) -> Figure | None:
    """Draws the recall against the delay after training: one panel per task, one colour per cell."""
    lists = lambda row: [results.mean_list(row.id, f"measure.{name}") for name in ("delays", "recalls")]
    curves = [(row, *lists(row)) for row in (*COPIES, *AGREEMENTS) if lists(row)[0]]
    if not curves:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(TASKS), figsize=(10, 4.6), sharey=True)
    for row, delays, recalls in curves:
        task, _, rest = row.name.partition(", ")
        attention = row.id.endswith("_attention")
        style = {"marker": "o" if attention else "x", "markersize": 4, "linestyle": "--" if attention else "-"}
        style["color"] = COLOURS[1 + list(CELLS).index(row.overrides["model.cell"]["kind"])]
        axes[list(TASKS.values()).index(task)].plot(delays, recalls, linewidth=1.2, label=rest, **style)
    for axis, task in zip(axes, TASKS.values(), strict=True):
        axis.set_title(task, loc="left", fontsize=11)
        axis.set_ylim(-0.03, 1.03)
        axis.set_xlabel("number of words between")
    axes[0].set_ylabel("recall, share of examples")
    legend(figure, columns=3)
    where = folder / "recall.png"
    save(figure, where, caption(results, "after training; lines: mean over seeds", rows=[row.id for row, *_ in curves]))
    said = "; ".join(f"{row.name} {results.cell(row.id, FAR).text}" for row, *_ in curves)
    return Figure(where, "Recall by distance after training", f"Recall over the longest third of delays: {said}.")


FAR = Column("measure.far", "recall, longest third", fixed(2), better="higher")
SIZES = {"width": 64, "length": 64, "rows": 8}
STUDY = Study(
    rows=(*PATHS, *COPIES, *AGREEMENTS),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"width": 8, "length": 16, "rows": 2}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"model.width": 256, "training.steps": 5000}, seeds=3, settings=SIZES),
    },
    columns=(
        Column("measure.slope", "decades per step", fixed(3)),
        Column("measure.fit", "R^2 of the line", fixed(2)),
        Column("measure.log_ratio", "log10 farthest / nearest", fixed(1), better="higher"),
        Column("measure.near", "recall, shortest third", fixed(2), better="higher"),
        FAR,
        Column("train.loss", "loss", significant(2), better="lower"),
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "copy_lstm_attention",
            "measure.recall",
            line=0.9,
            higher=True,
            claims=("attention-shortens-gradient-path",),
            rows=("copy_*",),
        ),
        Competence(
            "agree_lstm_attention",
            "measure.recall",
            line=0.9,
            higher=True,
            claims=("attention-shortens-gradient-path",),
            rows=("agree_*",),
        ),
    ),
    untrained=("rnn-gradients-vanish-or-explode",),
    verdicts={
        "rnn-gradients-vanish-or-explode": vanish_or_explode,
        "attention-shortens-gradient-path": attention_shortens,
    },
    figures=(draw_norms, draw_recall),
    notes=(
        "Gradients are those of a random projection of the last state of an untrained cell, with standard normal "
        "inputs. Norms are geometric means over 8 sequences of length 64.",
        "Copying and agreement use generated text; chance is 1/512 for copying and 1/2 for agreement.",
    ),
)

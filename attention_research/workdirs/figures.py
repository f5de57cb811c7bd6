"""Figures of one run: its losses, learning rate, gradient norm and speed."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.studies.chart import Line, chart
from attention_research.studies.columns import metrics
from attention_research.studies.figures import COLOURS, Figure, canvas, save, styles_of
from attention_research.studies.results import finite
from attention_research.training import tracking
from attention_research.workdirs.reading import Run

#: The thick line is a running mean over 1/50 of the logged steps.
_WINDOW = 50
#: Other logged values -> (title of the axis, whether the axis is logarithmic if the values vary much).
_PANELS = {
    "learning_rate": ("learning rate", False),
    "gradient_norm": ("gradient norm", True),
    "tokens_per_second": ("tokens/s", False),
}


def draw(run: Run, folder: Path) -> list[Figure]:
    """Draws the run's figures into ``folder``. Figures without logged values are left out."""
    pyplot = canvas()
    folder.mkdir(parents=True, exist_ok=True)
    drawn = (
        _losses(pyplot, run, folder / "loss.png"),
        _evaluations(pyplot, run, folder / "evaluations.png"),
        _others(pyplot, run, folder / "training.png"),
    )
    return [figure for figure in drawn if figure]


def caption(run: Run, marks: str = "") -> str:
    """The line below each figure: run, config, seeds, step, and the meaning of the marks.

    For example "first, translation/transformer:cpu, seed 0, step 4,000 of 4,000; points: validation".
    """
    seeds = sorted(run.curves("loss")) or [run.config.resolved["training"]["seed"]]
    said = f"{run.whose}{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    name = ", ".join(filter(None, (run.folder.resolve().name, run.config.spec)))
    return f"{name}, {said}, step {run.step:,} of {run.steps:,}" + (f"; {marks}" if marks else "")


def charts(run: Run) -> list[str]:
    """The same curves as HTML that answers to the pointer, for the page of the run."""
    note = caption(run)
    found = [chart(*_losses_as_lines(run), note=note)]
    known = {metric.name: metric for metric in metrics()}
    for (name, split), seeds in run.further().items():
        evaluation, _, metric = name.partition(".")
        title = known[metric].title if metric in known else metric
        found.append(chart(f"{evaluation}: {title} by step", title, _lines(run, split, seeds), note=note))
    for name, (title, logarithmic) in _PANELS.items():
        lines = _lines(run, title, run.curves(name))
        values = [value for line in lines for _, value in line.points]
        wide = logarithmic and bool(values) and 0 < 20 * min(values) < max(values)
        found.append(chart(f"{title[0].upper()}{title[1:]} by step", title, lines, logarithmic=wide, note=note))
    return [one for one in found if one]


def _losses_as_lines(run: Run) -> tuple[str, str, list[Line]]:
    """Title, label and lines of the losses: training as logged (pale) and as a running mean, validation as marks."""
    training, validation = run.curves("loss"), run.curves("loss", "validation")
    window = max(1, max(map(len, training.values()), default=0) // _WINDOW)
    lines = []
    for colour, (seed, curve) in enumerate(training.items()):
        steps, values = _points(curve)
        mean = list(zip(steps, smoothed(values, window), strict=True))
        lines += [Line("", _pairs(curve), colour, pale=True)] if window > 1 else []
        lines.append(Line(_of_seed(run, "training", seed, training), mean, colour))
    for colour, (seed, curve) in enumerate(validation.items()):
        of_its_own = colour + len(COLOURS) // 2 if len(validation) == 1 else colour
        lines.append(Line(_of_seed(run, "validation", seed, validation), _pairs(curve), of_its_own, marks=True))
    said = f" (mean of {window} logged steps)" if window > 1 else ""
    return f"Loss by step{said}", "loss", lines


def _lines(run: Run, label: str, seeds: Mapping[int, Mapping[int, float]]) -> list[Line]:
    """One line for each seed."""
    return [Line(_of_seed(run, label, seed, seeds), _pairs(curve), i) for i, (seed, curve) in enumerate(seeds.items())]


def _of_seed(run: Run, label: str, seed: int, seeds: Mapping[int, Any]) -> str:
    return f"{label}, {run.whose} {seed}" if len(seeds) > 1 else label


def _pairs(curve: Mapping[int, float]) -> list[tuple[float, float]]:
    return list(zip(*_points(curve), strict=True))


def _points(curve: Mapping[int, float]) -> tuple[list[int], list[float]]:
    kept = {step: value for step, value in sorted(curve.items()) if finite(value)}
    return list(kept), list(kept.values())


def smoothed(values: list[float], window: int) -> list[float]:
    """The running mean: each value is averaged with up to `window` - 1 values before it.

    >>> smoothed([4.0, 2.0, 3.0, 5.0], 2)
    [4.0, 3.0, 2.5, 4.0]
    """
    return [statistics.fmean(values[max(0, i + 1 - window) : i + 1]) for i in range(len(values))]


def _losses(pyplot: Any, run: Run, path: Path) -> Figure | None:
    """Draws the training loss as logged (pale) and as a running mean (strong), and the validation loss as markers.

    Seeds differ in line style and marker as well as in colour.
    """
    training, validation = run.curves("loss"), run.curves("loss", "validation")
    if not any(_points(curve)[0] for curve in training.values()):
        return None
    figure, axis = pyplot.subplots(figsize=(9, 4.2))
    said = []
    for (seed, curve), style in zip(training.items(), styles_of(map(str, training)).values(), strict=True):
        steps, values = _points(curve)
        if not steps:
            continue
        window = max(1, len(values) // _WINDOW)
        of_seed = _of_seed(run, "", seed, training)
        colour, dashes = style["color"], style["linestyle"]
        strong = {"color": colour, "linestyle": dashes, "linewidth": 1.6}
        axis.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8)
        axis.plot(steps, smoothed(values, window), label=f"training{of_seed}", **strong)
        said.append(f"training loss{of_seed}: {values[0]:.2f} at step {steps[0]:,}, {values[-1]:.2f} at {steps[-1]:,}")
        steps, values = _points(validation.get(seed, {}))
        if steps:
            marks = {"color": colour, "marker": style["marker"], "markerfacecolor": "white", "linestyle": "none"}
            axis.plot(steps, values, label=f"validation{of_seed}", markersize=6, **marks)
            said.append(f"validation loss{of_seed}: lowest {min(values):.2f}, last {values[-1]:.2f}")
    axis.set_xlabel("step")
    axis.set_ylabel("loss")
    axis.legend()
    window = max(1, max(map(len, training.values())) // _WINDOW)
    mean = f"; the strong line is the mean of {window} logged steps" if window > 1 else ""
    strong_line = f"strong lines: mean of {window} logged steps, pale lines: as logged" if window > 1 else ""
    points = "points: validation" if any(_points(curve)[0] for curve in validation.values()) else ""
    save(figure, path, caption(run, ", ".join(filter(None, (strong_line, points)))))
    return Figure(path, f"Loss by step{mean}", f"Losses by step. {'; '.join(said)}.")


def _evaluations(pyplot: Any, run: Run, path: Path) -> Figure | None:
    """The metrics of further evaluations by step, a panel each; the title says which way is better."""
    said_of = {metric.name: metric for metric in metrics()}
    found = run.further()
    if not found:
        return None
    figure, axes = pyplot.subplots(len(found), 1, figsize=(9, 0.6 + 1.9 * len(found)), squeeze=False, sharex=True)
    said = []
    for axis, ((name, split), seeds) in zip(axes[:, 0], found.items(), strict=True):
        evaluation, _, metric = name.partition(".")
        known = said_of.get(metric)
        title = f"{evaluation}: {known.title if known else metric}"
        for (seed, curve), style in zip(seeds.items(), styles_of(map(str, seeds)).values(), strict=True):
            steps, values = _points(curve)
            axis.plot(steps, values, label=f"{run.whose} {seed}", markersize=5, linewidth=1.2, **style)
            if values:
                of_seed = _of_seed(run, "", seed, seeds)
                best = (max if known and known.higher else min)(values)
                said.append(f"{title}{of_seed}: best {best:.4g}, last {values[-1]:.4g}")
        better = f", {known.better} is better" if known else ""
        axis.set_title(f"{title} ({split}{better})", loc="left", fontsize=10)
        if len(seeds) > 1:
            axis.legend()
    axes[-1, 0].set_xlabel("step")
    save(figure, path, caption(run))
    return Figure(path, "Further evaluations by step", f"Further evaluations by step. {'; '.join(said)}.")


def _others(pyplot: Any, run: Run, path: Path) -> Figure | None:
    """Draws learning rate, gradient norm and tokens/s, one above the other."""
    curves = {name: run.curves(name) for name in _PANELS if run.curves(name)}
    if not curves:
        return None
    size = (9, 0.6 + 1.7 * len(curves))
    figure, axes = pyplot.subplots(len(curves), 1, figsize=size, squeeze=False, sharex=True)
    said = []
    for axis, (name, seeds) in zip(axes[:, 0], curves.items(), strict=True):
        title, logarithmic = _PANELS[name]
        # Seeds share the learning rate and the speed, which are drawn once. Replicas with one seed may not.
        seeds = seeds if name == "gradient_norm" or run.whose == "replica" else dict(itertools.islice(seeds.items(), 1))
        for (seed, curve), style in zip(seeds.items(), styles_of(map(str, seeds)).values(), strict=True):
            steps, values = _points(curve)
            axis.plot(steps, values, color=style["color"], linestyle=style["linestyle"], linewidth=1.1)
            if values:
                of_seed = _of_seed(run, "", seed, seeds)
                said.append(f"{title}{of_seed}: from {min(values):.3g} to {max(values):.3g}, last {values[-1]:.3g}")
        every = [value for curve in seeds.values() for value in _points(curve)[1]]
        if logarithmic and every and 0 < 20 * min(every) < max(every):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        axis.set_ylabel(title)
    axes[-1, 0].set_xlabel("step")
    figure.align_ylabels()
    save(figure, path, caption(run))
    titles = [_PANELS[name][0] for name in curves]
    joined = " and ".join([", ".join(titles[:-1]), titles[-1]]) if len(titles) > 1 else titles[0]
    title = joined[0].upper() + joined[1:]
    return Figure(path, f"{title} by step", f"{title} by step. {'; '.join(said)}.")


def track(folder: Path) -> None:
    """Gives the scores of evaluation.json and the run's figures to the programs of `training.track`."""
    run = Run.read(folder)
    step = run.evaluation.get("step", run.step)
    scores = {f"evaluation/{name}": value for name, value in (run.scores | run.further_scores).items()}
    with tempfile.TemporaryDirectory() as place:
        drawn = draw(run, Path(place))
        for tracker in tracking.opened(run.config.resolved["training"]["track"], folder, tracking.RESULTS):
            tracker.numbers(step, scores)
            for figure in drawn:
                tracker.picture(figure.path.stem, figure.path, step)
            tracker.close()

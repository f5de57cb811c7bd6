"""The figures of `lectures/efficient_at_scale`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results

from .models import CAUSAL
from .verdicts import AGAINST, NAMES, gaps


def draw_gaps(results: Results, folder: Path) -> Figure | None:
    """Draws the loss by model size, and the gap of each efficient attention to full attention, one mark per seed."""
    rows = [kind for kind in NAMES if results.values(kind, "measure.losses")]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.6))
    looks = styles_of(NAMES)
    for kind in rows:
        sizes = results.values(kind, "measure.parameters")[0]
        left.plot(sizes, results.mean_list(kind, "measure.losses"), label=NAMES[kind], **looks[kind])
        found = gaps(results, kind) if kind in AGAINST else []
        if not found:
            continue
        means = [statistics.fmean(values) for _, values in found]
        right.plot([size for size, _ in found], means, label=NAMES[kind], **looks[kind])
        points = [(size, value) for size, values in found for value in values]
        right.plot(*zip(*points, strict=True), ".", color=looks[kind]["color"], alpha=0.6)
        said.append(f"{NAMES[kind]} {', '.join(f'{mean:+.3f}' for mean in means)}")
    right.axhline(0, color="grey", linewidth=0.8)
    for axis, title in ((left, "loss, nats per token"), (right, "loss minus that of full attention")):
        axis.set_xscale("log")
        axis.set_xlabel("parameters")
        axis.set_ylabel(title)
    legend(figure)
    where = folder / "sizes.png"
    save(figure, where, caption(results, "lines: mean over seeds, dots: seeds", rows=rows))
    return Figure(
        where,
        "Loss of efficient attention by model size",
        f"Loss minus that of full attention, by size: {'; '.join(said) or 'none'}.",
    )


def draw_contexts(results: Results, folder: Path) -> Figure | None:
    """Draws the loss by context length at one compute budget, and the number of training tokens in that budget."""
    rows = [kind for kind in CAUSAL if results.values(kind, "measure.context_losses")]
    if not rows:
        return None
    contexts = results.settings.get("contexts", ())
    pyplot, said = canvas(), []
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.4))
    for kind, look in ((kind, styles_of(NAMES)[kind]) for kind in rows):
        means = results.mean_list(kind, "measure.context_losses")
        left.plot(contexts, means, label=NAMES[kind], **look)
        points = [pair for seed in results.values(kind, "measure.context_losses")
                  for pair in zip(contexts, seed, strict=True)]  # fmt: skip
        left.plot(*zip(*points, strict=True), ".", color=look["color"], alpha=0.6)
        right.plot(contexts, results.mean_list(kind, "measure.context_tokens"), label=NAMES[kind], **look)
        said.append(f"{NAMES[kind]} {', '.join(f'{mean:.3f}' for mean in means)}")
    for axis, title in ((left, "loss, nats per token"), (right, "training tokens within the compute budget")):
        axis.set_xscale("log", base=2)
        axis.set_xticks(contexts, list(map(str, contexts)))
        axis.set_xlabel("context, tokens")
        axis.set_ylabel(title)
    right.set_ylim(0, 1.06 * right.get_ylim()[1])
    right.yaxis.set_major_formatter("{x:,.0f}")
    legend(figure)
    where = folder / "contexts.png"
    save(figure, where, caption(results, "lines: mean over seeds, dots: seeds", rows=rows))
    return Figure(
        where, "Loss by context length", f"At contexts of {', '.join(map(str, contexts))}: {'; '.join(said)}."
    )

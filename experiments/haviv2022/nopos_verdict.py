"""The verdict and the figure of `haviv2022/nopos`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, between, conclude, margin_of, no_worse

#: A masked language model without positions fails if its perplexity is above that of relative ones by this factor.
FAR = 1.5
SIZES = {"": "base", "_small": "half as wide and deep", "_short": "32 tokens", "_masked": "masked"}
#: Scheme -> its name in the figure.
SHOWN = {
    "none": "no positions", "learned": "learned", "sinusoidal": "sinusoidal", "alibi": "ALiBi", "relative": "relative",
}  # fmt: skip
KEY = "evaluate.perplexity"


def close(results: Results) -> Verdict:
    """Without positions, the perplexity of causal models is above that with learned positions by less than the margin
    of the claim (published: 20.97 against 20.42, 2.7 %), and the perplexity of masked models is far from that with
    relative positions."""
    said, cases, margin = [], {}, margin_of(results, "no-positions-still-works")
    for suffix, name in SIZES.items():
        reference = "relative" if suffix == "_masked" else "learned"
        found = {scheme: values for scheme in SHOWN if (values := results.values(f"{scheme}{suffix}", KEY))}
        if "none" in found and reference in found:
            mean = {scheme: statistics.fmean(values) for scheme, values in found.items()}
            listed = ", ".join(f"{scheme} {value:.1f}" for scheme, value in mean.items() if scheme != "none")
            said.append(f"{name}: {listed}; without / {reference} {mean['none'] / mean[reference]:.3f}")
        if suffix == "_masked":
            many = [FAR * value for value in found.get(reference, ())]
            cases[name] = between(f"{FAR:g} x {reference}", "none", many, found.get("none", []), "perplexity",
                                  higher=False)  # fmt: skip
        else:
            cases[name] = no_worse(results, f"none{suffix}", f"{reference}{suffix}", KEY, margin)
    return conclude(cases).beside(*said)


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity by scheme, one panel per size, one point per seed and a bar at the mean."""
    there = {s: n for s, n in SIZES.items() if any(results.values(f"{scheme}{s}", KEY) for scheme in SHOWN)}
    if not there:
        return None
    pyplot, colours = canvas(), dict(zip(SHOWN, COLOURS, strict=False))
    figure, axes = pyplot.subplots(1, len(there), figsize=(2.6 * len(there) + 0.3, 3.8), squeeze=False)
    said = []
    for axis, (suffix, name) in zip(axes[0], there.items(), strict=True):
        measured = [scheme for scheme in SHOWN if results.values(f"{scheme}{suffix}", KEY)]
        for place, scheme in enumerate(measured):
            values, colour = results.values(f"{scheme}{suffix}", KEY), colours[scheme]
            axis.plot([place] * len(values), values, "o", color=colour, markersize=6, alpha=0.8)
            axis.hlines(statistics.fmean(values), place - 0.3, place + 0.3, color=colour)
            said.append(f"{name}, {scheme} {statistics.fmean(values):.1f}")
        axis.set_xticks(range(len(measured)), [SHOWN[scheme] for scheme in measured], rotation=90)
        axis.set_title(name, loc="left", fontsize=11)
        axis.margins(x=0.15, y=0.15)
    axes[0, 0].set_ylabel("perplexity per token")
    where = folder / "perplexity.png"
    save(
        figure,
        where,
        caption(results, "points: seeds, bars: mean", rows=[row.id for row in results.rows]),
    )
    return Figure(where, "Perplexity by position scheme", f"{'; '.join(said)}.")

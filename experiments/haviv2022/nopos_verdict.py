"""The verdict and the figure of `haviv2022/nopos`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.comparisons import Margin
from attention_research.studies.figures import COLOURS, Figure, canvas, caption, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, between, conclude, no_worse

from .schemes import SCHEMES

#: "Close" means at most this much above the perplexity of learned positions (published: 20.97 against 20.42, 2.7 %).
CLOSE = Margin(0.05, relative=True)
#: A masked language model without positions fails if its perplexity is above that of learned ones by this factor.
FAR = 1.5
SIZES = {"": "base", "_small": "half as wide and deep", "_short": "32 tokens", "_masked": "masked"}
KEY = "evaluate.perplexity"


def close(results: Results) -> Verdict:
    """The perplexity without positions is close to that with learned positions for causal models, and far from it for
    masked models."""
    said, cases = [], {}
    for suffix, name in SIZES.items():
        without, learned = (results.values(f"{scheme}{suffix}", KEY) for scheme in ("none", "learned"))
        if not without or not learned:
            continue
        ratio = statistics.fmean(without) / statistics.fmean(learned)
        others = (f"{scheme} {statistics.fmean(values):.1f}" for scheme in SCHEMES
                  if (values := results.values(f"{scheme}{suffix}", KEY)))  # fmt: skip
        said.append(f"{name}: {', '.join(others)}; without / learned {ratio:.3f}")
    for suffix, name in SIZES.items():
        rows = f"none{suffix}", f"learned{suffix}"
        if suffix == "_masked":
            many = [FAR * value for value in results.values(rows[1], KEY)]
            cases[name] = between(f"{FAR:g} x learned", "none", many, results.values(rows[0], KEY), "perplexity",
                                  higher=False)  # fmt: skip
        else:
            cases[name] = no_worse(results, *rows, KEY, CLOSE)
    return conclude(cases).beside(*said)


#: The name of a scheme in the figure, if it is not its id.
SHOWN = {"none": "no positions", "alibi": "ALiBi"}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity by scheme, one panel per size, one point per seed and a bar at the mean."""
    there = {s: n for s, n in SIZES.items() if any(results.values(f"{scheme}{s}", KEY) for scheme in SCHEMES)}
    if not there:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(there), figsize=(2.6 * len(there) + 0.3, 3.8), squeeze=False)
    said = []
    for axis, (suffix, name) in zip(axes[0], there.items(), strict=True):
        for place, (scheme, colour) in enumerate(zip(SCHEMES, COLOURS, strict=False)):
            values = results.values(f"{scheme}{suffix}", KEY)
            if values:
                axis.plot([place] * len(values), values, "o", color=colour, markersize=6, alpha=0.8)
                axis.hlines(statistics.fmean(values), place - 0.3, place + 0.3, color=colour)
                said.append(f"{name}, {scheme} {statistics.fmean(values):.1f}")
        axis.set_xticks(range(len(SCHEMES)), [SHOWN.get(scheme, scheme) for scheme in SCHEMES], rotation=90)
        axis.set_title(name, loc="left", fontsize=11)
        axis.margins(x=0.15, y=0.15)
    axes[0, 0].set_ylabel("perplexity per token")
    where = folder / "perplexity.png"
    save(
        figure,
        where,
        caption(results, "points: seeds, bars: mean", rows=[f"{scheme}{size}" for scheme in SCHEMES for size in there]),
    )
    return Figure(where, "Perplexity by position scheme", f"{'; '.join(said)}.")

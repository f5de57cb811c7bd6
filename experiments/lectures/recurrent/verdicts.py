"""The verdicts and the figure of `lectures/recurrent`."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, compare, decide

from ..laws.exact import exact

#: Claim -> its law in a few words.
LAWS = {
    "rnn-parameters-free-of-length": "parameters at any length",
    "rnn-trained-by-backprop": "the gradient through time",
    "rnn-blind-to-later-steps": "a state and what comes after",
    "bidirectional-sees-later-steps": "a second direction",
    "conditional-lm-factorisation": "a string as a product of steps",
    "decoder-feeds-its-own-output": "writing is scoring",
}


def widths(results: Results) -> dict[int, list[list[float]]]:
    """Maps each width of the state to the accuracies by length of each seed."""
    rows = {row.id: row.id.split("_")[1] for row in results.rows if row.id.startswith("copying_")}
    found = {
        int(width): [list(one) for one in results.values(row, "measure.accuracies")] for row, width in rows.items()
    }
    return {width: lists for width, lists in found.items() if lists}


def capacity(results: Results) -> Verdict:
    """At every width the accuracy at the longest length is below that at the shortest, in every seed. The first length
    with an accuracy below one half is not shorter for a wider state."""
    found = widths(results)
    lengths = results.settings.get("lengths", ())
    cases, halves, said = {}, [], []
    for width, lists in found.items():
        means = [statistics.fmean(at) for at in zip(*lists, strict=True)]
        half = next((length for length, mean in zip(lengths, means, strict=True) if mean < 0.5), None)
        halves.append(math.inf if half is None else half)
        said.append(f"{'never' if half is None else half} at width {width}")
        by_length = ", ".join(f"{100 * mean:.0f}" for mean in means)
        cases[f"decreases at width {width}"] = Case.ruled(all(one[-1] < one[0] for one in lists), f"{by_length} %")
    if not found:
        return Verdict(UNTESTED, "copying is not measured")
    planned = [row.id for row in results.study.rows_at(results.scale) if row.id.startswith("copying_")]
    missing = [row for row in planned if not results.values(row, "measure.accuracies")]
    cases |= {f"decreases at width {row.removeprefix('copying_')}": Case.ruled(None) for row in missing}
    grows = all(a <= b for a, b in itertools.pairwise(halves)) and halves[-1] > halves[0]
    cases["a wider state lasts longer"] = Case.ruled(grows, f"below half from {', '.join(said)}")
    return decide(cases, f"accuracy at {', '.join(map(str, lengths))} symbols")


def directions(results: Results) -> Verdict:
    """The law holds, and tags that later symbols determine are predicted clearly better with both directions."""
    found = exact("bidirectional-sees-later-steps")(results)
    tags = compare(results, "tagging_2", "tagging_1", "measure.accuracy", higher=True)
    return decide({**found.cases, "tags of later symbols": Case.compared(tags)})


VERDICTS = {
    **{claim: exact(claim) for claim in LAWS},
    "bidirectional-sees-later-steps": directions,
    "rnn-one-state-capacity": capacity,
}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy of copying by length, one line per width."""
    found = widths(results)
    if not found:
        return None
    lengths = results.settings.get("lengths", ())
    pyplot, said = canvas(), []
    figure, axis = pyplot.subplots(figsize=(7.4, 4.4))
    for (width, lists), style in zip(found.items(), styles_of(map(str, found)).values(), strict=True):
        means = [100 * statistics.fmean(at) for at in zip(*lists, strict=True)]
        axis.plot(lengths, means, label=f"state of width {width}", **style)
        said.append(f"{width}: {', '.join(f'{mean:.0f}' for mean in means)}")
    axis.axhline(50, color="grey", linewidth=1, label="half of the symbols")
    axis.set_ylim(0, 102)
    axis.set_xlabel("symbols to copy")
    axis.set_ylabel("accuracy, %")
    legend(figure, columns=3)
    where = folder / "capacity.png"
    save(figure, where, caption(results, "lines: mean over seeds"))
    return Figure(where, "Copying through one state", f"Accuracy in % by length, for each width: {'; '.join(said)}.")

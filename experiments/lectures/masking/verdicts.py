"""The verdicts and the figure of `lectures/masking`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, mark_plainly, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, against, compare, conclude, decide

from ..laws.exact import exact

#: Claim -> its law in a few words.
LAWS = {
    "mask-to-minus-infinity": "the future at minus infinity",
    "mask-equals-truncation": "one pass is every step alone",
    "encoder-is-unmasked-decoder": "an encoder is a mask that hides nothing",
}
#: A model cannot generate if its share of correct outputs is below this.
FAILS = 0.5


def truncation(results: Results) -> Verdict:
    """The law holds, and one pass is faster at every length."""
    found = exact("mask-equals-truncation")(results)
    ratios = results.mean_list("truncation", "measure.ratios")
    lengths = results.settings.get("lengths", ())
    timed = {
        f"one pass is faster at {length} tokens": Case.ruled(ratio > 1, f"single steps take {ratio:.1f} times as long")
        for length, ratio in zip(lengths, ratios, strict=True)
    } if ratios else {"one pass is faster": Case(UNMEASURED)}  # fmt: skip
    return decide({**found.cases, **timed})


def cheats(results: Results) -> Verdict:
    """Without the mask the loss under teacher forcing is clearly lower, but clearly fewer outputs are correct, and
    clearly less than half of them."""
    return conclude({
        "lower loss without the mask": compare(results, "unmasked", "masked", "train.loss"),
        "fewer correct outputs without the mask": compare(results, "masked", "unmasked", "measure.recall", higher=True),
        "less than half of its outputs are correct": against(
            results, "unmasked", "measure.recall", FAILS, higher=False
        ),
    })  # fmt: skip


def encoder(results: Results) -> Verdict:
    """The law holds, and hidden characters are predicted clearly better from both sides."""
    found = exact("encoder-is-unmasked-decoder")(results)
    sides = compare(results, "two_sided", "one_sided", "evaluate.perplexity")
    return decide({**found.cases, "hidden characters": Case.compared(sides)})


VERDICTS = {
    "mask-to-minus-infinity": exact("mask-to-minus-infinity"),
    "mask-equals-truncation": truncation,
    "encoder-is-unmasked-decoder": encoder,
    "unmasked-decoder-cheats": cheats,
}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws milliseconds by length: one masked pass, and one pass for each step."""
    lengths = results.settings.get("lengths", ())
    times = {name: results.mean_list("truncation", f"measure.{name}") for name in ("masked", "truncated")}
    if not all(times.values()):
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7, 4.4))
    for (name, values), colour in zip(times.items(), COLOURS, strict=False):
        label = {"masked": "one masked pass", "truncated": "one pass for each step"}[name]
        axis.plot(lengths, values, "os"[name == "truncated"], linestyle="-", color=colour, label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(lengths, [str(length) for length in lengths])
    mark_plainly(axis.yaxis)
    axis.set_xlabel("sequence length, steps")
    axis.set_ylabel("milliseconds")
    legend(figure)
    where = folder / "truncation.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=["truncation"]))
    said = ", ".join(f"{length}: {slow / fast:.1f}" for length, slow, fast in
                     zip(lengths, times["truncated"], times["masked"], strict=True))  # fmt: skip
    return Figure(where, "One masked pass against one pass for each step", f"Time ratio by number of steps: {said}.")

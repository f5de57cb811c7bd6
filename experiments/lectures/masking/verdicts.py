"""The verdicts and the figure of `lectures/masking`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare, together

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
    if found.status != HELD or not ratios:
        return found if ratios or found.status != HELD else Verdict(UNTESTED, f"{found.because}; not timed")
    lengths = results.study.scale(results.scale).settings.get("lengths", ())
    said = ", ".join(f"{ratio:.1f} at {length}" for length, ratio in zip(lengths, ratios, strict=True))
    return Verdict(HELD if min(ratios) > 1 else CONDITION, f"{found.because}; time of single steps / one pass: {said}")


def cheats(results: Results) -> Verdict:
    """Without the mask the loss under teacher forcing is clearly lower, but clearly fewer outputs are correct, and less
    than half of them."""
    loss, written = together({
        "loss": compare(results, "unmasked", "masked", "train.loss"),
        "written": compare(results, "masked", "unmasked", "measure.recall", higher=True),
    }).values()  # fmt: skip
    if loss.clear is None or written.clear is None:
        return Verdict(UNTESTED, f"{loss.text}; {written.text}")
    because = f"{loss.text}; {written.text}"
    fails = (results.mean("unmasked", "measure.recall") or 0.0) < FAILS
    if written.clear and fails:
        return Verdict(HELD if loss.clear else CONDITION, because)
    return Verdict(FAILED, because)


def encoder(results: Results) -> Verdict:
    """The law holds, and masked words are predicted clearly better from both sides."""
    found = exact("encoder-is-unmasked-decoder")(results)
    sides = compare(results, "two_sided", "one_sided", "evaluate.perplexity")
    because = f"{found.because}; {sides.text}"
    if found.status != HELD or sides.clear is None:
        return Verdict(found.status if found.status != HELD else UNTESTED, because)
    return Verdict(HELD if sides.clear else CONDITION, because)


VERDICTS = {
    "mask-to-minus-infinity": exact("mask-to-minus-infinity"),
    "mask-equals-truncation": truncation,
    "encoder-is-unmasked-decoder": encoder,
    "unmasked-decoder-cheats": cheats,
}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws milliseconds by length: one masked pass, and one pass for each step."""
    lengths = results.study.scale(results.scale).settings.get("lengths", ())
    times = {name: results.mean_list("truncation", f"measure.{name}") for name in ("masked", "truncated")}
    if not all(times.values()):
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for (name, values), colour in zip(times.items(), COLOURS, strict=False):
        label = {"masked": "one masked pass", "truncated": "one pass for each step"}[name]
        axis.plot(lengths, values, "o-", color=colour, label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(lengths, [str(length) for length in lengths])
    axis.set_xlabel("steps")
    axis.set_ylabel("milliseconds")
    axis.legend(frameon=False)
    where = folder / "truncation.png"
    save(pyplot, figure, where)
    said = ", ".join(f"{length}: {slow / fast:.1f}" for length, slow, fast in
                     zip(lengths, times["truncated"], times["masked"], strict=True))  # fmt: skip
    return Figure(where, "One masked pass against one pass for each step", f"Time ratio by number of steps: {said}.")

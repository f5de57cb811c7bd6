"""The verdicts of `lectures/rigidity`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    UNTESTED,
    Case,
    Verdict,
    compare,
    conclude,
    decide,
    equivalent,
    margin_of,
    together,
)

ENCODERS = {"encoder": ("vectors, trained", True), "encoder_drawn": ("vectors, as drawn", False)}
KINDS = {
    "none": "no attention",
    "basic": "X X^T",
    "shared": "X X^T of a learned projection",
    "learned": "learned queries, keys, values",
}
#: The kinds of attention for inputs that are vectors.
READERS = ("none", "basic", "learned")
INPUTS = {
    "sentences": "words (film reviews)",
    "digits": "patches (MNIST)",
    "largest": "numbers, the largest",
    "count": "numbers, how often 1",
    "duplicate": "numbers, any twice",
}
LANGUAGE = "sentences"
#: Weights favour tokens of the same direction if their agreement with cosines is above this.
FAVOURS = 0.5
#: Outputs are more similar than inputs if the mean cosine grows by more than this.
MOVED = 0.01


def favours(results: Results) -> Verdict:
    """Weights agree with cosines, and outputs are more similar than inputs, in every seed: for the trained word
    vectors, and for the input and the output of each layer of the encoder."""
    lists = {name: results.values("encoder", f"measure.{name}") for name in ("agreement", "before", "after")}
    if not lists["agreement"]:
        return Verdict(UNTESTED, "the trained encoder's vectors are not measured")
    names = ["words", "input", *(f"layer {n + 1}" for n in range(len(lists["agreement"][0]) - 2))]
    worst = [min(values) for values in zip(*lists["agreement"], strict=True)]
    moved = [
        [after - before for before, after in zip(*seed, strict=True)]
        for seed in zip(lists["before"], lists["after"], strict=True)
    ]
    gains = [min(values) for values in zip(*moved, strict=True)]
    means = [results.mean_list("encoder", f"measure.{name}") for name in ("before", "after", "own")]
    cases = {}
    for name, least, gain, before, after, own in zip(names, worst, gains, *means, strict=True):
        cases[f"vectors of {name}"] = Case.ruled(
            least >= FAVOURS and gain >= MOVED,
            f"agreement at least {least:.2f}, cosine of two tokens {before:.2f} before and {after:.2f} after, weight "
            f"on itself {own:.2f}",
        )
    return decide(cases)


def rigid(results: Results) -> Verdict:
    """At the least similar token, learned projections are better than both forms of X X^T, and these are as good as no
    attention within the margin of the claim. At the most similar token X X^T must be better than no attention, which
    shows that the task itself can be learned.

    The margin is an accuracy of 0.1: the study counts an accuracy of 0.9 as a learned task, 0.1 below the maximum, and
    in the same way at most 0.1 above no attention as nothing learned.
    """
    margin, least = margin_of(results, "basic-is-rigid"), "measure.dissimilar"
    cases = {"X X^T at the most similar token": compare(
        results, "unlike_basic", "unlike_none", "measure.similar", higher=True
    )}  # fmt: skip
    for kind in ("basic", "shared"):
        row = f"unlike_{kind}"
        cases[f"repaired, {kind}"] = compare(results, "unlike_learned", row, least, higher=True)
        cases[f"blind, {kind}"] = equivalent(results, row, "unlike_none", least, margin, higher=True)
    return conclude(cases)


def fails_outside(results: Results) -> Verdict:
    """The gap of learned to basic attention is clear on each input other than language, and larger than on words."""
    gaps = together({
        inputs: compare(results, f"{inputs}_learned", f"{inputs}_basic", "measure.accuracy", higher=True)
        for inputs in INPUTS
    })  # fmt: skip
    words = gaps.pop(LANGUAGE)
    cases = {}
    for inputs, gap in gaps.items():
        larger = None if gap.clear is None or words.clear is None else bool(gap.clear and gap.gain > words.gain)
        none = compare(results, f"{inputs}_basic", f"{inputs}_none", "measure.accuracy", higher=True)
        cases[INPUTS[inputs]] = Case.ruled(larger, f"{gap.text}; {none.said}")
    return decide(cases, f"{INPUTS[LANGUAGE]}: {words.text}")


VERDICTS = {
    "basic-favours-parallel-tokens": favours,
    "basic-is-rigid": rigid,
    "basic-fails-outside-language": fails_outside,
}

"""The verdicts of `lectures/embeddings`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    FAILED,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    compare,
    decide,
)

from ..laws.exact import exact

LOOKUP = "embedding-is-lookup"
CHOICES = {
    "random": "random, frozen",
    "tf_idf": "TF-IDF",
    "pretrained": "pre-trained, frozen",
    "learned": "learned",
}
#: At the input two states of a word differ only by their positions, so their mean cosine must be at least this.
ALIKE = 0.95


def labels_of(results: Results) -> tuple[int, ...]:
    """Returns the numbers of labels."""
    return tuple(results.study.scale(results.scale).settings.get("labels", ()))


def ranked(results: Results) -> Verdict:
    """At each number of labels, random vectors are worse than TF-IDF, and TF-IDF is worse than pre-trained vectors, by
    the means over seeds."""
    order = ("random", "tf_idf", "pretrained")
    curves = {choice: results.mean_list(choice, "measure.accuracies") for choice in CHOICES}
    if not all(curves[choice] for choice in order):
        return Verdict(UNTESTED, "random, TF-IDF or pre-trained vectors are not measured")
    cases = {}
    for place, count in enumerate(labels_of(results)):
        accuracy = {choice: curve[place] for choice, curve in curves.items() if curve}
        low, middle, high = (accuracy[choice] for choice in order)
        numbers = ", ".join(f"{CHOICES[choice]} {100 * value:.1f} %" for choice, value in accuracy.items())
        cases[f"{count:,} labels"] = Case.ruled(low < middle < high, numbers)
    return decide(cases, "accuracies")


def moved(results: Results) -> Verdict:
    """At the input the states of a word are nearly equal for both senses. After the last layer of the trained encoder
    they are more similar within a sense than across senses, for every word.

    The text also compares this difference with that of random weights.
    """
    words = results.values("encoder", "measure.words")
    if not words:
        return Verdict(UNTESTED, "the trained encoder is not measured")
    drawn = compare(results, "encoder", "encoder_drawn", "measure.gap_last", higher=True)
    within, across = (results.mean_list("encoder", f"measure.{name}") for name in ("within", "across"))
    pairs = ", ".join(f"{a:.2f} and {b:.2f}" for a, b in zip(within, across, strict=True))
    alike = min(within[0], across[0])
    cases = {"alike at the input": Case.ruled(alike >= ALIKE, f"cosine of at least {alike:.2f}")}
    for word, gap in words[0].items():
        cases[f"senses of {word} at the last layer"] = Case.ruled(all(one[word] > 0 for one in words), f"{gap:+.2f}")
    return decide(cases, f"cosines within and across senses by layer, input first: {pairs}", drawn.said)


def pictured(results: Results) -> Verdict:
    """The figure shows the states of one word by layer, and its senses are separate at the last layer."""
    points = results.values("encoder", "measure.points")
    if not points:
        return Verdict(UNTESTED, "the trained encoder is not measured")
    shown = results.study.scale(results.scale).settings.get("shown", "")
    gap = results.values("encoder", "measure.words")[0].get(shown, 0.0)
    return Verdict(
        HELD if gap > 0 else FAILED, f"figures/word.png; {shown}: {gap:+.2f} within minus across, last layer"
    )


VERDICTS = {
    LOOKUP: exact(LOOKUP),
    "embedding-choices-ranked": ranked,
    "embeddings-moved-by-context": moved,
    "embedding-context-figure": pictured,
}

"""The verdicts of `lectures/embeddings`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare

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
    curves = {choice: results.mean_list(choice, "measure.accuracies") for choice in CHOICES}
    if not all(curves[choice] for choice in ("random", "tf_idf", "pretrained")):
        return Verdict(UNTESTED, "random, TF-IDF or pre-trained vectors are not measured")
    labels = labels_of(results)
    said = [f"{CHOICES[choice]}: {', '.join(f'{100 * value:.1f}' for value in curve)} %"
            for choice, curve in curves.items() if curve]  # fmt: skip
    triples = zip(*(curves[choice] for choice in ("random", "tf_idf", "pretrained")), strict=True)
    good = [count for count, (low, middle, high) in zip(labels, triples, strict=True) if low < middle < high]
    because = f"accuracy at {', '.join(f'{count:,}' for count in labels)} labels; {'; '.join(said)}"
    if len(good) == len(labels):
        return Verdict(HELD, because)
    if not good:
        return Verdict(FAILED, because)
    return Verdict(CONDITION, f"in this order at {', '.join(f'{count:,}' for count in good)} labels; {because}")


def moved(results: Results) -> Verdict:
    """At the input the states of a word are nearly equal for both senses. After the last layer of the trained encoder
    they are more similar within a sense than across senses, for every word, and clearly more than with random weights.
    """
    gaps, words = results.values("encoder", "measure.gap_last"), results.values("encoder", "measure.words")
    if not gaps:
        return Verdict(UNTESTED, "the trained encoder is not measured")
    drawn = compare(results, "encoder", "encoder_drawn", "measure.gap_last", higher=True)
    within, across = (results.mean_list("encoder", f"measure.{name}") for name in ("within", "across"))
    pairs = ", ".join(f"{a:.2f} and {b:.2f}" for a, b in zip(within, across, strict=True))
    by_word = ", ".join(f"{word} {gap:+.2f}" for word, gap in words[0].items())
    because = f"cosines within and across senses, input first: {pairs}; at the last layer {by_word}; {drawn.said}"
    alike = min(within[0], across[0]) >= ALIKE
    good = all(gap > 0 for one in words for gap in one.values())
    if alike and good:
        return Verdict(HELD, because)
    return Verdict(CONDITION if good else FAILED, because)


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

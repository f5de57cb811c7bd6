"""The verdicts of `lectures/embeddings`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    FAILED,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    between,
    compare,
    conclude,
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
    return tuple(results.settings.get("labels", ()))


def ranked(results: Results) -> Verdict:
    """At each number of labels, random vectors are clearly worse than TF-IDF, and TF-IDF is clearly worse than
    pre-trained vectors. The seeds are paired: a seed draws the same labels for all vectors.

    The text also gives the accuracies of learned vectors.
    """
    curves = {choice: results.values(choice, "measure.accuracies") for choice in CHOICES}
    cases = {}
    for place, count in enumerate(labels_of(results)):
        at = {choice: [curve[place] for curve in found] for choice, found in curves.items()}
        for worse, better in (("random", "tf_idf"), ("tf_idf", "pretrained")):
            names = CHOICES[better], CHOICES[worse]
            in_pairs = len(at[better]) == len(at[worse])
            cases[f"{' above '.join(names)}, {count:,} labels"] = between(
                *names, at[better], at[worse], "accuracy", in_pairs=in_pairs
            )
    learned = ", ".join(f"{100 * value:.1f} %" for value in results.mean_list("learned", "measure.accuracies"))
    return conclude(cases).beside(f"learned vectors: {learned}" if learned else "")


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
    shown = results.settings.get("shown", "")
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

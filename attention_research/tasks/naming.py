"""Scores function names by their sub-tokens, Allamanis, Peng & Sutton 2016, and analyses the copy probability.

Precision, recall and F1 are computed for the sub-tokens of each name and then averaged over functions, as in the
released code (code2seq uses corpus-wide sums instead). F1 at 5 is the best F1 of the first five suggestions. An exact
match has the same sub-tokens in the same order. The accuracy on sub-tokens outside the vocabulary is the fraction of
these distinct sub-tokens that the suggestion contains, averaged over the functions whose names have any. All scores are
in percent.

Suggestions are the hypotheses of a beam search without length penalty, except the empty name. The paper uses a
best-first search over the same log-probabilities, which also excludes the empty name. The unknown word never matches a
sub-token of a name, but it counts as a suggested sub-token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from attention_research.decoding import BeamSearch
from attention_research.signatures import Positive
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.evaluation_protocol import Floor, Metric
from attention_research.tokens import EOS, PAD

#: The first character of the tokens for unknown words and for special tokens of a body.
_SIGN = "<"
NAME_LENGTH = 8


def sub_token_scores(suggested: Sequence[str], name: Sequence[str]) -> tuple[float, float, float]:
    """(precision, recall, F1) of one suggestion, from 0 to 1. A sub-token that is suggested twice is correct once.

    >>> sub_token_scores(["get", "cache", "size"], ["set", "cache"])
    (0.3333333333333333, 0.5, 0.4)
    """
    right = len({word for word in suggested if not word.startswith(_SIGN)} & set(name))
    if not right:
        return 0.0, 0.0, 0.0
    return right / len(suggested), right / len(name), 2 * right / (len(suggested) + len(name))


def naming_scores(
    suggestions: Sequence[Sequence[str]], names: Sequence[str], known: Iterable[str] | None = None
) -> dict[str, float]:
    """The scores of the suggestions for each function, given best first as texts of sub-tokens.

    `known` is the vocabulary. `repeated` is the percentage of first suggestions in which a sub-token occurs twice.
    """
    known = None if known is None else set(known)
    sums: Any = Counter()
    outside = [0, 0.0, 0.0]
    for ranked, name in zip(suggestions, names, strict=True):
        tried, wanted = [text.split() for text in ranked] or [[]], name.split()
        scores = [sub_token_scores(one, wanted) for one in tried]
        sums.update(dict(zip(("precision", "recall", "f1"), scores[0], strict=True)))
        sums["f1_at_5"] += max(score[2] for score in scores[:5])
        sums["exact_match"] += tried[0] == wanted
        sums["exact_match_at_5"] += wanted in tried[:5]
        sums["repeated"] += len(set(tried[0])) < len(tried[0])
        unseen = set() if known is None else set(wanted) - known
        if unseen:
            shares = [len(unseen.intersection(one)) / len(unseen) for one in tried]
            outside = [outside[0] + 1, outside[1] + shares[0], outside[2] + max(shares[:5])]
    percent = {name: 100.0 * sums[name] / max(1, len(names)) for name in _NAMES}
    if known is not None:
        percent["oov_functions"] = float(outside[0])
        for place, name in ((1, "oov_accuracy"), (2, "oov_accuracy_at_5")):
            if outside[0]:
                percent[name] = 100.0 * outside[place] / outside[0]
    return percent


_NAMES = ("precision", "recall", "f1", "f1_at_5", "exact_match", "exact_match_at_5", "repeated")


def first_words(body: str, count: int) -> str:
    """The first sub-tokens of a body that could be part of a name: a baseline that copies without learning."""
    return " ".join([word for word in body.split() if word.isidentifier()][:count])


def area_under_curve(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The probability that a positive value exceeds a negative one. Ties count half (Mann & Whitney 1947).

    >>> area_under_curve([0.9, 0.4], [0.1, 0.4])
    0.875
    """
    ordered = np.sort(np.asarray(negative))
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(np.mean(below) / (2 * len(ordered)))


def mixing_weights(weights: Iterable[tuple[float, bool, bool]]) -> dict[str, float]:
    """The mean of lambda if the next sub-token is in the body, if it is not, and at the end of the name.

    `weights` has tuples (lambda, whether the target is copyable, whether it is the end). `lambda_auc` is the area under
    the ROC curve for distinguishing the first case from the two others by lambda.
    """
    copied: list[float] = []
    invented: list[float] = []
    ends: list[float] = []
    for value, copyable, end in weights:
        (ends if end else copied if copyable else invented).append(float(value))
    if not copied or not invented + ends:
        return {}
    means = {"copied": copied, "invented": invented, "end": ends}
    found = {f"lambda_{name}": float(np.mean(values)) for name, values in means.items() if values}
    return {**found, "lambda_auc": area_under_curve(copied, invented + ends)}


class NamingEvaluation(Evaluation):
    """Scores function names by `naming_scores`. For a copying model, also computes `mixing_weights` at the true names.

    There are two floors: the most frequent name of the training split for every function, and the first sub-tokens of
    each body, as many as a name has on average. `floor_f1` is the larger F1 of the two.

    `suggestions` is the number of names that are generated for each function.
    """

    needs = ("encode", "start", "step", "log_likelihood")
    metrics = (
        Metric(
            "f1",
            "F1",
            "higher",
            floors=(
                Floor(
                    "fixed",
                    "a fixed name or the first words",
                    "floor_f1",
                    "a fixed name or the first words",
                    "a fixed name's",
                ),
                Floor("frequent", "most frequent target"),
                Floor("first_words", "first words of the source"),
            ),
        ),
        Metric("precision", "precision", "higher"),
        Metric("recall", "recall", "higher"),
        Metric("f1_at_5", "F1 at 5", "higher"),
        Metric("exact_match", "exact match, %", "higher"),
        Metric("exact_match_at_5", "exact match at 5, %", "higher"),
    )

    def __init__(self, *, suggestions: Positive = 5, **inherited: Any):
        super().__init__(**inherited)
        self.suggestions = suggestions

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """The hypotheses (one more than `suggestions`), and lambda at each sub-token of the true name."""
        search = BeamSearch(beam_size=self.suggestions + 1, alpha=0.0, extra_length=NAME_LENGTH, exact="all")
        decoded = search(model, {"tokens": batch["source"]}, max_length=NAME_LENGTH)
        found = {"tokens": decoded.tokens, "lengths": decoded.lengths}
        _, aux = model.log_likelihood(batch)
        weight = aux["decoder"].get("copy_probability")
        return found if weight is None else {**found, "copy_probability": weight}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> dict[str, Any]:
        """The scores, the floors and the mixing weights of a split."""
        names, bodies, suggestions, weights = [], [], [], []
        sources, targets = data.text(self.split)
        for ids, batch, found in triples:
            for row in np.flatnonzero(ids >= 0):
                lengths = found["lengths"][row]  # with the end token: 1 for an empty name, 0 for a missing hypothesis
                tokens = [found["tokens"][row, k] for k in range(len(lengths)) if lengths[k] > 1][: self.suggestions]
                suggestions.append(data.tokenizer.decode(tokens, [batch["source"][row]] * len(tokens)))
                names.append(targets[ids[row]])
                bodies.append(sources[ids[row]])
                if "copy_probability" in found:
                    weights += _at_target(batch["source"][row], batch["target"][row], found["copy_probability"][row])
        scores = {**naming_scores(suggestions, names, data.tokenizer.known), **mixing_weights(weights)}
        twice = sum(len(set(name.split())) < len(name.split()) for name in names)
        scores |= {"repeated_true": 100.0 * twice / max(1, len(names)), "functions": len(names)}
        scores |= self._floors(data, names, bodies)
        return {**scores, "samples": _samples(names, suggestions)}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors: the most frequent name, and the first words of the body."""
        from attention_research.tasks.floors.written import name_floors

        return name_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        outside = f" · outside the vocabulary {scores['oov_accuracy']:.1f}" if "oov_accuracy" in scores else ""
        return (
            f"F1 {scores['f1']:.1f} (at 5: {scores['f1_at_5']:.1f}) · exact {scores['exact_match']:.1f}{outside} · "
            f"floors: most frequent name {scores['frequent_name_f1']:.1f}, first words {scores['first_words_f1']:.1f}"
        )

    def _floors(self, data: Any, names: Sequence[str], bodies: Sequence[str]) -> dict[str, float]:
        training = Counter(data.text("train")[1])
        count = round(sum(len(name.split()) * times for name, times in training.items()) / max(1, training.total()))
        frequent = min(training, key=lambda name: (-training[name], name))
        f1: Callable[[list[str]], float] = lambda given: naming_scores([[one] for one in given], names)["f1"]
        floors = {
            "frequent_name_f1": f1([frequent] * len(names)),
            "first_words_f1": f1([first_words(body, count) for body in bodies]),
        }
        return {**floors, "floor_f1": max(floors.values())}


def _samples(names: Sequence[str], suggestions: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    pairs = zip(names[:5], suggestions[:5], strict=True)
    return [{"name": name, "suggested": list(ranked)} for name, ranked in pairs]


def _at_target(source: np.ndarray, target: np.ndarray, weight: np.ndarray) -> list[tuple[float, bool, bool]]:
    """(lambda, copyable, end) at each token of the true name."""
    there = set(source.tolist()) - {PAD, EOS}
    real = target != PAD
    return [(float(w), int(t) in there, int(t) == EOS) for w, t in zip(weight[real], target[real], strict=True)]

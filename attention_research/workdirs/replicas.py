"""The scores in `evaluation.json`: those of each replica of a run, their mean and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.studies.columns import significant

#: Numbers in `evaluation.json` that are not scores.
_NO_SCORES = {"step", "seed", "replica", "seconds", "tokens", "sentences"}


def is_evaluation(document: Mapping[str, Any]) -> bool:
    """Whether a document has the form of `evaluation.json`: objects where scores of further evaluations and replicas
    are."""
    further, replicas = document.get("evaluations", {}), document.get("replicas", [])
    if not isinstance(further, dict) or not isinstance(replicas, list):
        return False
    return all(isinstance(one, dict) for one in further.values()) and all(
        isinstance(one, dict) and "replicas" not in one and is_evaluation(one) for one in replicas
    )


def each(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The numbers of each replica, with the split. A single run has one entry, which is empty before an evaluation."""
    shared = {"split": evaluation["split"]} if "split" in evaluation else {}
    return [shared | one for one in evaluation.get("replicas", ())] or [dict(evaluation)]


def scores_of(one: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a replica, with the split as a prefix, such as `test_bleu`."""
    split = one.get("split", "evaluation")
    return {f"{split}_{name}": float(x) for name, x in one.items() if is_number(x) and name not in _NO_SCORES}


def further_scores_of(one: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a replica in further evaluations, as "NAME.METRIC"."""
    found = one.get("evaluations", {}).items()
    return {f"{name}.{metric}": x for name, scores in found for metric, x in scores.items() if is_number(x)}


def mean(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each score that all replicas have.

    >>> mean([{"bleu": 2.0, "loss": 3.0}, {"bleu": 3.0}])
    {'bleu': 2.5}
    """
    if len(scores) == 1:
        return dict(scores[0])
    return {name: statistics.fmean(values) for name, values in _shared(scores).items()}


def spread(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The sample standard deviation of each score that all replicas have; empty for one replica.

    >>> spread([{"bleu": 2.0}, {"bleu": 4.0}, {"bleu": 6.0}])
    {'bleu': 2.0}
    """
    if len(scores) == 1:
        return {}
    return {name: statistics.stdev(values) for name, values in _shared(scores).items()}


def text(evaluation: Mapping[str, Any]) -> list[str]:
    """The scores as `evaluate` prints them: those of each replica, then the means over several replicas."""
    found = each(evaluation)
    if len(found) == 1:
        return _summary(found[0])
    lines = []
    for one in found:
        lines += [f"replica {one.get('replica')}, seed {one.get('seed')}", *(f"  {line}" for line in _summary(one))]
    numbers = [scores_of(one) | further_scores_of(one) for one in found]
    spreads = spread(numbers)
    lines.append(f"mean ± sample standard deviation over {len(found)} replicas")
    return lines + [f"  {name} {spelled(value, spreads[name])}" for name, value in mean(numbers).items()]


def spelled(value: float, deviation: float | None = None) -> str:
    """A score, and its spread if it is known.

    >>> spelled(21.416, 0.3021), spelled(21.416)
    ('21.42 ± 0.30', '21.42')
    """
    return significant(4)(value) + ("" if deviation is None else f" ± {significant(2)(deviation)}")


def _summary(one: Mapping[str, Any]) -> list[str]:
    """The lines about one replica: its scores, those of further evaluations, and its perplexity."""
    lines = [one["summary"]]
    lines += [f"{name} ({scores['split']}): {scores['summary']}" for name, scores in one.get("evaluations", {}).items()]
    if "perplexity" in one:
        lines.append(f"{one['sentences']} sentences of {one['split']} · perplexity per token {one['perplexity']:.2f}")
    return lines


def _shared(scores: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Name -> its values, for the scores that all replicas have."""
    return {name: [one[name] for one in scores] for name in scores[0] if all(name in one for one in scores)}


def is_number(value: Any) -> bool:
    """Whether the value is an int or a float. NaN counts as a number, a bool does not."""
    return type(value) in (int, float)

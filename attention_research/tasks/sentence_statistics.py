"""The sufficient statistics of a corpus metric for each sentence, in a compact form for the record of a trial.

Corpus BLEU and error rates are not means over sentences but functions of sums over the test set. With the summands of
each sentence, a statistical test over the choice of test sentences (`studies.differences`) does not need the
hypotheses. The packed form is::

    {"version": 1, "metric": "bleu", "items": 830, "test_set": "9f2c01d4e8aa", "fixed": "c%1E0...", "own": "c$~#..."}

`fixed` depends only on the test set, so it is the same for all trials and a record stores it once. `own` depends on the
hypotheses. `test_set` is a hash of the sources and references. If the evaluation also scores the sources near to the
training text and those far from it, `near` has 1 for each near source and 0 for each other one. These texts encode
integers, column by column: each value x is stored as 2x or, if negative, as -2x - 1, in 32 bits, with the lowest bytes
of all values first; then the bytes are compressed by zlib and written in base 85. The columns of ``bleu`` are, where
m_n is the number of matching n-grams of length n:

- fixed: tokens of the reference;
- own: tokens of the hypothesis minus those of the reference; tokens of the hypothesis minus m_1; m_1 - m_2; m_2 - m_3;
  m_3 - m_4.

The columns of ``error_rate`` are:

- fixed: tokens of the longest reference of a source;
- own: edits to the nearest reference; tokens of the longest reference minus those of the nearest one.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from attention_research.tasks.error_rate import nearest

VERSION = 1


def of_bleu(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> dict[str, Any]:
    """The packed statistics of BLEU by sacreBLEU, with one reference per sentence."""
    counts = bleu_counts(hypotheses, references)
    tokens, expected, matches = counts[:, 0], counts[:, 1], counts[:, 2:6]
    fewer = np.column_stack([tokens, matches[:, :3]]) - matches
    return _packed("bleu", expected[:, None], np.column_stack([tokens - expected, fewer]), sources, references)


def of_error_rate(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> dict[str, Any]:
    """The packed statistics of `error_rate.error_rates`. An item is a source with all of its references."""
    grouped: dict[str, tuple[str, list[str]]] = {}
    for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
        grouped.setdefault(source, (hypothesis, []))[1].append(reference)
    found = np.array([nearest(*one) for one in grouped.values()], np.int64).reshape(-1, 2)
    longest = [max(len(reference.split()) for reference in several) for _, several in grouped.values()]
    fixed = np.array(longest, np.int64)[:, None]
    own = np.column_stack([found[:, :1], fixed - found[:, 1:]])
    return _packed("error_rate", fixed, own, sources, references)


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Int[np.ndarray, "n 10"]:
    """The statistics of corpus BLEU for each sentence: both lengths, matching n-grams and n-grams for n = 1 to 4.

    >>> bleu_counts(["a dog"], ["the dog"]).tolist()
    [[2, 2, 1, 0, 0, 0, 2, 1, 0, 0]]
    """
    import sacrebleu

    metric = sacrebleu.BLEU()
    scores = (metric.corpus_score([one], [[other]]) for one, other in zip(hypotheses, references, strict=True))
    found = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]
    return np.array(found, np.int64).reshape(-1, 10)


def with_near(packed: Mapping[str, Any], near: Bool[np.ndarray, "n"]) -> dict[str, Any]:
    """The packed statistics with the sources that are near to the training text."""
    return {**packed, "near": _text(near.astype(np.int64)[:, None])}


def counts(packed: Mapping[str, Any], name: str = "") -> Int[np.ndarray, "n c"] | None:
    """Unpacks the summands of each item that the score `name` uses: of all, of the near or of the far sources.

    For BLEU, these are the columns of `bleu_counts`. For an error rate, these are the edits, the tokens, and 1 if there
    is any edit. None for an unknown metric or version, or without the near sources where they are needed.
    """
    if packed.get("version") != VERSION or packed.get("metric") not in _COUNTS:
        return None
    columns, made = _COUNTS[packed["metric"]]
    found = made(_unpacked(packed["fixed"], 1), _unpacked(packed["own"], columns))
    side = name.split("_")[0]
    if side not in ("near", "far"):
        return found
    return found[_unpacked(packed["near"], 1)[:, 0] == (side == "near")] if "near" in packed else None


def _of_bleu(fixed: np.ndarray, own: np.ndarray) -> np.ndarray:
    tokens = fixed + own[:, :1]
    matches = tokens - np.cumsum(own[:, 1:], axis=1)
    return np.column_stack([tokens, fixed, matches, np.maximum(tokens - np.arange(4), 0)])


def _of_error_rate(fixed: np.ndarray, own: np.ndarray) -> np.ndarray:
    return np.column_stack([own[:, :1], fixed - own[:, 1:], own[:, :1] > 0])


def bleu(sums: Sequence[float]) -> float:
    """The BLEU of summed counts, as computed by sacreBLEU.

    >>> sentences = bleu_counts(["the cat sat on the mat", "a dog"], ["the cat sat on the mat", "the dog"])
    >>> round(bleu(sentences.sum(axis=0).astype(float).tolist()), 1)
    92.4
    """
    from sacrebleu.metrics import BLEU

    whole = [int(one) for one in sums]
    return float(BLEU.compute_bleu(whole[2:6], whole[6:], whole[0], whole[1], smooth_method="exp").score)


#: Metric -> (the number of columns in `own`, the function that computes the counts).
_COUNTS = {"bleu": (5, _of_bleu), "error_rate": (2, _of_error_rate)}
#: Metric of the packed statistics -> score of the evaluation -> function (summed counts, number of items) -> value.
SCORES: dict[str, dict[str, Callable[[Sequence[float], int], float]]] = {
    "bleu": dict.fromkeys(("bleu", "near_bleu", "far_bleu"), lambda sums, items: bleu(sums)),
    "error_rate": {
        "error_rate": lambda sums, items: _percent(sums[0], sums[1]),
        "word_error_rate": lambda sums, items: 100.0 * float(sums[2]) / max(1, items),
    },
}


def _percent(wrong: float, tokens: float) -> float:
    return 100.0 * float(wrong) / float(tokens) if tokens else (float("inf") if wrong else 0.0)


def _packed(
    metric: str, fixed: np.ndarray, own: np.ndarray, sources: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    test_set = hashlib.sha256("\n".join([*sources, *references]).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    texts = {"fixed": _text(fixed), "own": _text(own)}
    return {"version": VERSION, "metric": metric, "items": len(fixed), "test_set": test_set, **texts}


def _text(values: Int[np.ndarray, "n c"]) -> str:
    """
    >>> _unpacked(_text(np.array([[3, -1], [300, 0], [-70000, 5]])), 2).tolist()
    [[3, -1], [300, 0], [-70000, 5]]
    """
    positive = np.where(values < 0, -2 * values - 1, 2 * values).T.astype("<u4")
    planes = np.ascontiguousarray(positive).view(np.uint8).reshape(*positive.shape, 4).transpose(0, 2, 1)
    return base64.b85encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")


def _unpacked(text: str, columns: int) -> Int[np.ndarray, "n c"]:
    planes = np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8).reshape(columns, 4, -1)
    positive = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<u4")[..., 0].T.astype(np.int64)
    return np.where(positive % 2, -(positive // 2) - 1, positive // 2)

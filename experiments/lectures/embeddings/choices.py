"""Topic classification of news stories with frozen and learned word vectors, by the number of labels.

A story is represented by the mean of its word vectors. A softmax regression with a small weight decay predicts its
topic. The vectors are random, one-hot times the inverse document frequency of the term (TF-IDF), the input table of a
pre-trained encoder, or learned with the classifier. Words are the word pieces of the encoder in all cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from attention_research.data import sources
from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.tokens import UNKNOWN
from attention_research.training.fitting import adam, descend
from attention_research.weights import load
from attention_research.weights.packaged import folder_of

CHOICES = ("random", "tf_idf", "pretrained", "learned")
DECAY, RATE, UPDATES = 1e-4, 0.02, 400
#: The number of word pieces of a story that are read.
LONGEST = 256
Counts = Float[np.ndarray, "E V"]


def counts_of(name: str, split: str, tokenizer: HuggingFaceTokenizer, size: int) -> tuple[Counts, list[str]]:
    """Returns (the frequency of each word in each text, divided by the number of its words; labels)."""
    there = sources.open_split(name, split)
    texts = [there[number] for number in range(len(there))]
    found = np.zeros((len(texts), size), np.float32)
    for row, ids in zip(found, tokenizer.encode([one["text"] for one in texts]), strict=True):
        words = [token for token in ids[:LONGEST] if token > UNKNOWN]
        np.add.at(row, words, 1 / max(1, len(words)))
    return found, [one["label"] for one in texts]


def fitted(features: Float[Array, "E F"], labels: Array, classes: int, table: Float[Array, "F D"] | None) -> Any:
    """Fits a softmax regression, and `table` if it is learned, by full-batch Adam.

    Returns the function from features to scores.
    """
    weights = {"kernel": jnp.zeros((features.shape[1] if table is None else table.shape[1], classes)),
               "bias": jnp.zeros(classes)} | ({} if table is None else {"table": table})  # fmt: skip

    def scores(weights: Any, features: Array) -> Array:
        x = features @ weights["table"] if "table" in weights else features
        return x @ weights["kernel"] + weights["bias"]

    def loss(weights: Any, _: Array) -> Array:
        cost = optax.softmax_cross_entropy_with_integer_labels(scores(weights, features), labels).mean()
        return cost + DECAY * jnp.square(weights["kernel"]).sum()

    weights = jax.jit(lambda weights: descend(loss, weights, jnp.arange(UPDATES), adam(RATE))[0])(weights)
    return lambda features: scores(weights, features)


def measure_choice(
    *,
    choice: str,
    checkpoint: str,
    labels: Sequence[int],
    width: int,
    learned_width: int,
    news: str,
    seed: int,
    **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns "accuracies" on the test split, a list by number of labels, and "few" and "all", the first and the last.

    Raises ValueError for an unknown choice.
    """
    if choice not in CHOICES:
        raise ValueError(f"{choice!r}: expected one of {', '.join(CHOICES)}")
    sources.prepare(news)
    loaded = load(folder_of(checkpoint))
    tokenizer, size = loaded.tokenizer(), len(loaded.numbering)
    (train, known), (test, wanted) = (counts_of(news, split, tokenizer, size) for split in ("train", "test"))
    seen = train.any(axis=0)  # words that are in no training text are ignored
    train, test = train[:, seen], test[:, seen]
    names = sorted(set(known))
    known, wanted = ([names.index(one) for one in side] for side in (known, wanted))
    random = np.random.default_rng(seed)
    order = random.permutation(len(known))
    table = None
    if choice == "tf_idf":
        rare = np.log(len(train) / (train > 0).sum(axis=0)).astype(np.float32)
        train, test = (_scaled(one * rare) for one in (train, test))
    elif choice == "learned":
        drawn = random.standard_normal((train.shape[1], learned_width)) * learned_width**-0.5
        table = jnp.asarray(drawn, jnp.float32)
    else:
        vectors = random.standard_normal((train.shape[1], width)).astype(np.float32)
        if choice == "pretrained":
            vectors = np.asarray(loaded.parameters["vocabulary.table"])[seen]
        train, test = (_scaled(one @ vectors) for one in (train, test))
    found = []
    for count in labels:
        some = order[:count]
        scores = fitted(jnp.asarray(train[some]), jnp.asarray(np.asarray(known)[some]), len(names), table)
        found.append(float(np.mean(np.asarray(scores(jnp.asarray(test))).argmax(axis=1) == np.asarray(wanted))))
    return {"accuracies": found, "few": found[0], "all": found[-1]}


def _scaled(x: Counts) -> Counts:
    """Normalizes the vector of every story to length 10, for which the learning rate of the regression is chosen."""
    return 10 * x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)

"""Measures which heads point at the word that decides another word, on sentences with gold links (`data.blanks`).

For each link and head it measures the accuracy and the weight on the deciding word. It also measures the loss of
accuracy when a head is removed (Michel, Levy & Neubig 2019, arXiv 1905.10650).

A head points correctly if the largest weight of the query's row is on the deciding word. Queries are the blanks in the
encoder, and the generated words in the decoder's attention to the source. The baseline is a fixed offset: the distance
that is right most often. The best head and the best offset are chosen on validation examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from attention_research.data.blanks import LINKS
from attention_research.tokens import BOS, EOS
from attention_research.training.evaluation import Trained

ENCODER, CROSS = ("encoder", "self_attention"), ("decoder", "cross_attention")
Links = Mapping[str, tuple[int, int]]


def pointing(
    maps: Sequence[Float[np.ndarray, "L N T S"]], links: Sequence[Links], *, written: bool = False
) -> dict[str, dict[str, np.ndarray]]:
    """Returns "accuracy" and "mass" [L N] for each link.

    "accuracy" is how often the largest weight of a head is on the deciding word, and "mass" is the weight on that word.
    With `written` the query of the n-th link is row n, which generates the word for the n-th blank.
    """
    found = {}
    for number, link in enumerate(LINKS):
        right, mass = [], []
        for weights, gold in zip(maps, links, strict=True):
            row = weights[:, :, number if written else gold[link][0]]
            right.append(row.argmax(axis=2) == gold[link][1])
            mass.append(row[:, :, gold[link][1]])
        found[link] = {"accuracy": np.mean(right, axis=0), "mass": np.mean(mass, axis=0)}
    return found


def fixed_offset(validated: Sequence[Links], tested: Sequence[Links]) -> dict[str, float]:
    """For each link, chooses the distance that is right most often on validation examples, and returns how often it is
    right on test examples.

    >>> near = {"syntax": (5, 3), "entity": (9, 0), "local": (11, 12)}
    >>> far = {"syntax": (8, 3), "entity": (9, 0), "local": (14, 15)}
    >>> fixed_offset([near, near, far], [near, far, far, far])
    {'syntax': 0.25, 'entity': 1.0, 'local': 1.0}
    """
    offsets = lambda links, link: [gold[link][1] - gold[link][0] for gold in links]
    most = {link: Counter(offsets(validated, link)).most_common(1)[0][0] for link in LINKS}
    return {link: offsets(tested, link).count(most[link]) / len(tested) for link in LINKS}


def accuracy(trained: Trained, *, examples: int | None) -> Callable[[Any], dict[str, float]]:
    """Returns a function from (parameters, statistics) to the accuracy of each link, with teacher forcing.

    The function is compiled once for all parameters.
    """
    structure = trained.trainer.structure
    batches = list(trained.data.evaluation_batches("test", 64, examples=examples))

    @jax.jit
    def named(arrays: Any, batch: dict[str, jax.Array]) -> jax.Array:
        model = structure.merge(*arrays)
        cache = model.start(model.encode({"tokens": batch["source"]}), len(LINKS))
        previous, found = jnp.full(batch["target"].shape[0], BOS, jnp.int32), []
        for number in range(len(LINKS)):
            cache, log_p, _ = model.step(cache, previous)
            found.append(jnp.argmax(log_p, axis=-1))
            previous = batch["target"][:, number]
        return jnp.stack(found, axis=1)

    def shares(arrays: Any) -> dict[str, float]:
        right = []
        for ids, batch in batches:
            target = np.asarray(batch["target"])[:, : len(LINKS)]
            right.append((np.asarray(named(arrays, batch)) == target)[np.asarray(ids) >= 0])
        means = np.concatenate(right).mean(axis=0)
        return {link: float(share) for link, share in zip(LINKS, means, strict=True)}

    return shares


def without_head(parameters: Mapping[str, Any], name: str, layer: int, head: int, num_heads: int) -> dict[str, Any]:
    """Removes a head: sets its rows of an output projection [L, N*H, D] to 0."""
    kernel = np.array(parameters[name])
    width = kernel.shape[1] // num_heads
    kernel[layer, head * width : (head + 1) * width] = 0.0
    return {**parameters, name: kernel}


def links_of(trained: Trained, tokens: Sequence[int]) -> Links:
    """Returns the gold links between the source tokens of an example."""
    words = [int(token) for token in tokens if token != EOS]
    return trained.data.gold(trained.data.tokenizer.decode([words])[0])

"""Which heads point at the word that decides another: accuracy and weight by link and head, on sentences with gold
links (`data.blanks`), and what the model loses without a head (Michel, Levy & Neubig 2019, arXiv 1905.10650).

A head points right where the largest weight of the query's row is on the deciding word. Queries are the blanks in the
encoder, and the written words in the decoder's attention to the source. A fixed offset is the baseline: of all
distances the one that is right most often. The best head and the best offset are chosen on validation examples.
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
    """Link -> {"accuracy", "mass"} [L N]: how often a head's largest weight is on the deciding word, and the weight
    there. With `written` the query of the n-th link is row n: the word that is written for it."""
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
    """Link -> how often the distance that is right most often on validation examples is right on test examples.

    >>> near = {"syntax": (5, 3), "entity": (9, 0), "local": (11, 12)}
    >>> far = {"syntax": (8, 3), "entity": (9, 0), "local": (14, 15)}
    >>> fixed_offset([near, near, far], [near, far, far, far])
    {'syntax': 0.25, 'entity': 1.0, 'local': 1.0}
    """
    offsets = lambda links, link: [gold[link][1] - gold[link][0] for gold in links]
    most = {link: Counter(offsets(validated, link)).most_common(1)[0][0] for link in LINKS}
    return {link: offsets(tested, link).count(most[link]) / len(tested) for link in LINKS}


def accuracy(trained: Trained, *, examples: int | None) -> Callable[[Any], dict[str, float]]:
    """From (parameters, statistics): link -> share of its words that the model finds most likely, the words before read
    from the reference. One program serves all parameters."""
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
    """The parameters with one head's rows of an output projection [L, N*H, D] set to 0: the head adds nothing."""
    kernel = np.array(parameters[name])
    width = kernel.shape[1] // num_heads
    kernel[layer, head * width : (head + 1) * width] = 0.0
    return {**parameters, name: kernel}


def links_of(trained: Trained, tokens: Sequence[int]) -> Links:
    """The gold links of an example's source tokens."""
    words = [int(token) for token in tokens if token != EOS]
    return trained.data.gold(trained.data.tokenizer.decode([words])[0])

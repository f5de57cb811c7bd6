"""The vectors of sentences of a recurrent encoder, and whether they contain word order (Sutskever et al. 2014, figure
2).

The vector of a sentence is everything that the decoder starts from: the last state of every layer and, for an LSTM, its
cell. Two measurements show whether it contains the order of words, which a bag of words does not: the distance between
a sentence and the same words in another order, and whether sentences are grouped by who does what to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from attention_research.analysis.by_length import sample
from attention_research.analysis.teacher_forced import untrained
from attention_research.studies.figures import canvas
from attention_research.studies.point_labels import label_points
from attention_research.tokens import EOS
from attention_research.training.evaluation import Trained

NAMES = ("king", "queen")
VERBS = ("follows", "finds", "helps", "visits", "trusts")
_MOST = 128  # the number of sentences that are compared pairwise
#: The same act in three wordings, as in the right panel of the paper. {0} follows and {1} is followed.
VOICES = (
    "the {0} follows the {1} in the city",
    "the {0} often follows the {1} in the city",
    "the {0} follows the {1} in the big city",
)


def pca(vectors: Float[np.ndarray, "N D"], count: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (coordinates [N count], shares of the variance [count], components [count D]), by SVD of centred rows.

    The largest entry of each component is positive, so that figures are the same on every machine.
    """
    centred = vectors - vectors.mean(0)
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    components = components[:count]
    largest = np.take_along_axis(components, np.abs(components).argmax(1)[:, None], axis=1)
    components = components * np.where(largest < 0, -1.0, 1.0)
    total = np.sum(singular**2)
    return centred @ components.T, singular[:count] ** 2 / (total if total else 1.0), components


def silhouette(points: Float[np.ndarray, "N D"], groups: Int[np.ndarray, "N"]) -> float:
    """The silhouette score (Rousseeuw 1987): the mean of (b - a) / max(a, b).

    a is the mean distance of a point to its own group, and b that to the nearest other group. A point that is alone in
    its group counts as 0. Near 1 the groups are separate, near 0 they overlap.
    """
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    values = []
    for i, own in enumerate(groups):
        same = (groups == own) & (np.arange(len(groups)) != i)
        if not same.any():
            values.append(0.0)
            continue
        a = distances[i, same].mean()
        b = min(distances[i, groups == other].mean() for other in set(groups.tolist()) - {int(own)})
        values.append((b - a) / max(a, b) if max(a, b) else 0.0)
    return float(np.mean(values))


def handed_over(
    trained: Trained, sentences: Sequence[str], arrays: tuple[Any, Any] | None = None
) -> Float[np.ndarray, "N D"]:
    """Returns the initial state of the decoder after each sentence, one row per sentence (float64).

    It uses the trained parameters and statistics, or `arrays`.
    """
    encoded = trained.data.tokenizer.encode(list(sentences))
    tokens = np.zeros((len(encoded), max(map(len, encoded))), np.int32)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids)] = ids

    @jax.jit
    def states(arrays: Any, tokens: jax.Array) -> list[jax.Array]:
        model = trained.trainer.structure.merge(*arrays)
        return jax.tree.leaves(model.start(model.encode({"tokens": tokens}))["state"]["layers"])

    leaves = [np.asarray(leaf, np.float64) for leaf in states(arrays or trained.model(), tokens)]
    return np.concatenate([leaf.reshape(len(encoded), -1) for leaf in leaves], axis=1)


def bags(trained: Trained, sentences: Sequence[str]) -> Float[np.ndarray, "N V"]:
    """Returns the count of each word piece in each sentence: vectors without order."""
    counts = np.zeros((len(sentences), trained.data.tokenizer.size))
    for row, ids in enumerate(trained.data.tokenizer.encode(list(sentences))):
        np.add.at(counts[row], [i for i in ids if i != EOS], 1)
    return counts


def reordered(sentence: str, rng: np.random.Generator) -> str:
    """Returns the same words in another order. The last word stays at the end."""
    words = sentence.split()
    body = list(rng.permutation(words[:-1]))
    return " ".join([*body, *words[-1:]])


def order_distance(vectors: Callable[[Sequence[str]], np.ndarray], sentences: Sequence[str], seed: int = 0) -> float:
    """The mean distance between a sentence and its reordering, divided by the mean distance of different sentences."""
    rng = np.random.default_rng(seed)
    both = vectors([*sentences, *(reordered(sentence, rng) for sentence in sentences)])
    own, other = both[: len(sentences)], both[len(sentences) :]
    apart = np.linalg.norm(own[:, None] - own[None], axis=-1)
    mean = apart[~np.eye(len(own), dtype=bool)].mean()
    return float(np.linalg.norm(own - other, axis=1).mean() / mean) if mean else 0.0


def roles() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns (sentences, actor, verb): both names in both roles with every verb."""
    told = [
        (f"the {first} {verb} the {second}", actor, number)
        for actor, (first, second) in enumerate((NAMES, NAMES[::-1]))
        for number, verb in enumerate(VERBS)
    ]
    return [text for text, _, _ in told], np.asarray([a for _, a, _ in told]), np.asarray([v for _, _, v in told])


def voices() -> tuple[list[str], np.ndarray]:
    """Returns (sentences, giver): one act in three wordings, and the same with exchanged roles."""
    told = [(voice.format(*names), giver) for giver, names in enumerate((NAMES, NAMES[::-1])) for voice in VOICES]
    return [text for text, _ in told], np.asarray([giver for _, giver in told])


def measure(*, workdir: Path, seed: int, examples: int = 128, longest: int = 24) -> dict[str, Any]:
    """Measures the sentence vectors of a trained run.

    Returns "order_distance" on test sentences of up to `longest` words, and that of bags of words, which is 0; the
    silhouettes of `roles` by actor ("actor_silhouette") and by verb ("verb_silhouette") and of `voices` by giver
    ("giver_silhouette"), each in the plane of the first two components; and these planes ("roles_plane" and
    "voices_plane": sentences, coordinates, shares of the variance).

    Names that end in "_untrained" are for the initial parameters. An untrained encoder distinguishes orders too, and
    its vector depends most on the words that it reads last.
    """
    del seed
    trained = Trained(workdir)
    sources, _ = trained.data.text("test")
    fitting = [s for s in sources if 5 <= len(s.split()) <= longest]
    chosen = [fitting[i] for i in sample(len(fitting), min(examples, _MOST))]
    texts, actors, verbs = roles()
    told, givers = voices()
    numbers: dict[str, Any] = {"bag_order_distance": order_distance(lambda s: bags(trained, s), chosen)}
    for ending, arrays in (("_untrained", untrained(trained)), ("", trained.model())):
        vectors = lambda sentences, arrays=arrays: handed_over(trained, sentences, arrays)
        (plane, shares, _), (second, second_shares, _) = pca(vectors(texts)), pca(vectors(told))
        numbers |= {
            f"order_distance{ending}": order_distance(vectors, chosen),
            f"actor_silhouette{ending}": silhouette(plane, actors),
            f"verb_silhouette{ending}": silhouette(plane, verbs),
            f"giver_silhouette{ending}": silhouette(second, givers),
        }
    return {
        **numbers,
        "variance_share": float(shares.sum()),
        "vector_width": int(vectors(texts[:1]).shape[1]),
        "roles_plane": _plane(texts, actors, plane, shares),
        "voices_plane": _plane(told, givers, second, second_shares),
    }


def _plane(texts: Sequence[str], groups: np.ndarray, points: np.ndarray, shares: np.ndarray) -> dict[str, Any]:
    found = {"texts": list(texts), "groups": groups.tolist(), "points": np.round(points, 5).tolist()}
    return {**found, "shares": np.round(shares, 4).tolist()}


def figure_of(planes: Sequence[tuple[str, dict[str, Any]]]) -> Any:
    """The matplotlib figure, a panel for each (title, plane): one point per sentence with its text, groups by marker
    and colour."""
    colours, markers = ("#0072B2", "#D55E00"), "o^"
    figure, axes = canvas().subplots(len(planes), 1, figsize=(9.5, 4.4 * len(planes)), squeeze=False)
    for axis, (title, plane) in zip(axes[:, 0], planes, strict=True):
        points, groups = np.asarray(plane["points"]), np.asarray(plane["groups"])
        for group, (marker, colour) in enumerate(zip(markers, colours, strict=True)):
            axis.plot(*points[groups == group].T, marker, color=colour, markersize=6.5, zorder=3)
        axis.margins(0.15, 0.2)
        axis.set_title(title)
        names = [f"component {i}: {share:.0%} of the variance" for i, share in enumerate(plane["shares"], 1)]
        axis.set(xlabel=names[0], ylabel=names[1])
    for axis, (_, plane) in zip(axes[:, 0], planes, strict=True):
        shades = [colours[group] for group in plane["groups"]]
        label_points(axis, plane["texts"], [tuple(point[:2]) for point in plane["points"]], colours=shades)
    return figure

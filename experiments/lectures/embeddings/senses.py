"""The effect of context on word vectors: ambiguous words in sentences of either sense, by layer of an encoder.

At the input the vectors of a word are equal except for their positions. Each layer adds information from the sentence.
The mean cosines of a word's states within one sense and across the two senses are compared (for the self-similarity of
words see Ethayarajh 2019, arXiv 1909.00512).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.tokens import BOS
from attention_research.weights import Loaded, load
from attention_research.weights.packaged import folder_of

#: Word -> sentences of its first and of its second sense, written for this study.
SENTENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bank": (
        ("she paid the money into her account at the bank", "the bank refused to lend us the money",
         "he works as a clerk in a bank", "interest at the bank rose again this year"),
        ("we sat on the bank and watched the river", "reeds grow along the muddy bank of the stream",
         "the boat drifted towards the far bank", "the river burst its bank after the rain"),
    ),
    "bat": (
        ("the bat hung upside down in the cave", "a bat flew out of the dark at dusk",
         "the bat eats insects and sleeps by day", "a small bat with leathery wings"),
        ("he swung the bat and hit the ball", "the player broke his bat in the first inning",
         "she bought a wooden bat and a glove", "the ball struck the edge of the bat"),
    ),
    "spring": (
        ("flowers bloom in the spring", "the birds return every spring after the winter",
         "we planted the garden last spring", "a warm day in early spring"),
        ("the spring in the mattress is broken", "a coiled steel spring pushes the lever back",
         "the clock has a wound spring inside", "compress the spring and release it"),
    ),
    "match": (
        ("he struck a match to light the fire", "the match burned down to her fingers",
         "a wet match will not light", "she lit the candle with a match"),
        ("the team won the match by two goals", "the tennis match lasted four hours",
         "tickets for the football match sold out", "they lost the final match of the season"),
    ),
    "bark": (
        ("the bark of the old oak is rough", "insects live under the bark of the tree",
         "cork is made from the bark of a tree", "moss covered the bark of the trunk"),
        ("the bark of the dog woke the street", "a loud bark came from behind the gate",
         "the puppy gave a short bark", "the guard dog has a deep bark"),
    ),
    "mouse": (
        ("the cat chased the mouse into its hole", "a grey mouse ate the cheese",
         "the mouse ran across the kitchen floor", "an owl caught a mouse in the field"),
        ("click the icon with the mouse", "the mouse and the keyboard are wireless",
         "move the mouse to the corner of the screen", "he plugged the mouse into the computer"),
    ),
    "seal": (
        ("the seal swam under the ice", "a grey seal basked on the rocks by the sea",
         "the seal caught a fish", "a young seal lay on the beach"),
        ("the letter bore the seal of the king", "the wax seal on the envelope was broken",
         "the document has an official seal", "he pressed his seal into the wax"),
    ),
    "rock": (
        ("she listens to rock and jazz", "the rock band played a loud concert",
         "a famous rock singer and his guitar", "he plays drums in a rock group"),
        ("the climber clung to the steep rock", "waves broke against the rock",
         "a huge rock fell from the cliff", "the geologist studied the volcanic rock"),
    ),
}  # fmt: skip


def word_states(
    loaded: Loaded, parameters: Any, tokenizer: HuggingFaceTokenizer, sentences: Sequence[str], word: str
) -> Float[np.ndarray, "M E D"]:
    """Returns the states of a word in each sentence: the input of the first layer, then the output of each layer.

    Raises ValueError for a sentence that does not contain the word exactly once, as one token.
    """

    @jax.jit
    def states(parameters: Any, tokens: Array) -> Array:
        model = loaded.structure.merge(parameters)
        places = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        first = model.encoder.positions(model.vocabulary.source(tokens), places)
        aux = model.encode({"tokens": tokens})["aux"]
        return jnp.concatenate([first[None], *(part["hidden"] for part in aux.values())])[:, 0]

    ((asked, _),) = tokenizer.encode([word])
    found = []
    for ids in tokenizer.encode(list(sentences)):
        if ids.count(asked) != 1:
            raise ValueError(f"{word!r} stands {ids.count(asked)} times in {tokenizer.decode([ids])[0]!r}")
        found.append(np.asarray(states(parameters, jnp.asarray([[BOS, *ids]], jnp.int32)))[:, 1 + ids.index(asked)])
    return np.stack(found, axis=1)


def similarities(states: Float[np.ndarray, "M E D"], senses: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yields (mean cosine within a sense, mean cosine across senses) of each layer."""
    for layer in np.asarray(states, np.float64):
        unit = layer / np.linalg.norm(layer, axis=1, keepdims=True)
        cosines = unit @ unit.T
        pairs = [(senses[a] == senses[b], cosines[a, b]) for a, b in itertools.combinations(range(len(senses)), 2)]
        within, across = (float(np.mean([value for same, value in pairs if same is kind])) for kind in (True, False))
        yield within, across


def plane(states: Float[np.ndarray, "E D"]) -> Float[np.ndarray, "E 2"]:
    """Projects the states on their two directions of largest variance."""
    centred = np.asarray(states, np.float64) - np.mean(states, axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:, :2] * values[:2]


def measure_senses(*, checkpoint: str, trained: bool, shown: str, seed: int, **_: Any) -> dict[str, Any]:
    """Measures the cosines of word states by layer, beginning with the input.

    "within" and "across" are lists by layer, averaged over words. "gap_input" and "gap_last" are within minus across at
    the input and at the last layer. "words" maps each word to its gap at the last layer. "points" [M E 2] are the
    projected states of the word `shown`, and "senses" their senses.
    """
    loaded = load(folder_of(checkpoint))
    tokenizer = loaded.tokenizer()
    parameters = loaded.parameters if trained else loaded.drawn(seed)
    curves, words, points = [], {}, None
    for word, sides in SENTENCES.items():
        senses = [number for number, side in enumerate(sides) for _ in side]
        states = word_states(loaded, parameters, tokenizer, [*sides[0], *sides[1]], word)
        curves.append(list(similarities(states, senses)))
        words[word] = curves[-1][-1][0] - curves[-1][-1][1]
        if word == shown:
            points = {"points": [plane(layer).round(4).tolist() for layer in states], "senses": senses}
    within, across = np.mean(curves, axis=0).T
    return {
        "within": within.tolist(),
        "across": across.tolist(),
        "gap_input": float(within[0] - across[0]),
        "gap_last": float(within[-1] - across[-1]),
        "words": words,
        **(points or {}),
    }

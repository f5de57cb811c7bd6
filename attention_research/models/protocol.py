"""The model protocols: the contract between models and the tasks, decoders and tools that use them.

A model is an NNX module that implements one of four protocols for training, which together form the type `Model`:

    ScoresTokens      log_likelihood(batch)      sequence models: translation, language models, captions
    Classifies        log_probabilities(batch)   one label an example: texts, images, pairs, questions
    Rates             read(source)               ratings of texts with the words that explain them
    MapsSeries        values(batch)              numbers for each position of a series of numbers

A model that generates text also implements one of these protocols, for decoding:

    Generates         encode(source) -> memory, start(memory, length) -> cache, step(cache, tokens)
    Continues         start(rows, length) -> cache, step(cache, tokens): a language model without a source

`EncodesSource` is the first part of `Generates`; encoders without a decoder implement it alone. Tasks, decoding and
training do not call any other method of a model. Code that depends on the abilities of a model tests for these
protocols, with `isinstance` on a model or `issubclass` on its class. A class with any of these methods implements one
whole protocol with its signatures. A test checks this for every registered kind.

All methods are pure. With a `key` (training), dropout, sampling and updates of running statistics are active. Without a
key they are not. A cache is opaque: a pytree whose leaves have at most one batch axis (`decoding.cache` finds it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Array, Float, Int, Key

#: Name -> array, as the data provide it (`data.protocol`): "source" and "target" [B T], "image" [B Y X C],
#: "series" [B T C], "label" [B].
Batch: TypeAlias = Mapping[str, Array]


@runtime_checkable
class ScoresTokens(Protocol):
    """The likelihood of every target token, given the tokens before it and the source."""

    def log_likelihood(
        self, batch: Batch, *, key: Key[Array, ""] | None = None
    ) -> tuple[Mapping[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"}, aux).

        These are log p(token), the mean of log p over the vocabulary (for label smoothing), and the positions that
        count. Language models also give "predicted" [B T], the most probable token at each position (`tasks.answers`).
        "aux" has the additional outputs of the layers: "encoder" and "decoder", or "network", with attention weights
        and alignments; auxiliary losses under "loss" and figures under "metrics" (`tasks.auxiliary`); with a key, new
        running statistics under "updates" (`layers.running_statistics`).
        """
        ...


@runtime_checkable
class Classifies(Protocol):
    """The probabilities of an example's classes."""

    def log_probabilities(
        self, batch: Batch, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, aux). "aux" is that of `ScoresTokens`, with "pooling" in addition, whose
        "weights" [B S] are the weight of each position."""
        ...


@runtime_checkable
class Rates(Protocol):
    """Ratings of a text, and the words that explain them."""

    def read(self, source: Int[Array, "B S"], *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """{"ratings" [B R] in [0, 1], "selected" [B S] (True for the chosen words), "log_probability" [B S] of this
        choice, "weights" [B S]}."""
        ...


@runtime_checkable
class MapsSeries(Protocol):
    """A series of vectors of numbers to another one: position t of the result depends on positions 0..t."""

    def values(
        self, batch: Batch, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """(the values at each position of the "series" [B T C] of a batch, in float32; aux)."""
        ...


@runtime_checkable
class EncodesSource(Protocol):
    """Encodes a source for a decoder or an analysis tool."""

    def encode(self, source: Mapping[str, Any], *, key: Key[Array, ""] | None = None) -> Mapping[str, Any]:
        """The memory of a source.

        A source is {"tokens" [B S]}, with "segments" and "positions" if rows are packed, or {"image" [B Y X C]}
        (`models.sequences.source`). A memory has the hidden states "hidden" [B S D] if the model has an encoder.
        """
        ...


@runtime_checkable
class Generates(EncodesSource, Protocol):
    """Generates a text from a source, token by token. `decoding` uses only these methods of a model."""

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> Any:
        """The cache before the first token, for texts of up to `length` tokens (None: the maximum of the model)."""
        ...

    def step(self, cache: Any, tokens: Int[Array, "B"]) -> tuple[Any, Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token (BOS at first).

        "collected" is the aux of this position. V is the size of the vocabulary; a copying model adds the words of the
        source.
        """
        ...


@runtime_checkable
class Continues(Protocol):
    """Continues a text. `decoding.continuation.Continued` wraps it as a `Generates` whose source is the prompt.

    At run time, a `Generates` also passes an `isinstance` check for this protocol, because it has both methods. Test
    for `Generates` first.
    """

    def start(self, rows: int, length: int | None = None) -> Any:
        """The cache of `rows` empty texts with up to `length` tokens, as in `Generates.start`."""
        ...

    def step(self, cache: Any, tokens: Int[Array, "B"]) -> tuple[Any, Float[Array, "B V"], dict[str, Any]]:
        """See `Generates.step`."""
        ...


#: Every model has one of these types, so that a task can train it.
Model: TypeAlias = ScoresTokens | Classifies | Rates | MapsSeries

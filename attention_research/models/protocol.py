"""What a model gives: the contract between models and the tasks, decoders and tools that use them.

A model is an NNX module that trains on one of three things, which are the three kinds of `Model`:

    ScoresTokens      log_likelihood(batch)      sequence models: translation, language models, captions
    Classifies        log_probabilities(batch)   one label an example: texts, images, pairs, questions
    Rates             read(source)               ratings of texts with the words that they rest on

A model that writes text gives more, for decoding:

    Generates         encode(source) -> memory, start(memory, length) -> cache, step(cache, tokens)
    Continues         start(rows, length) -> cache, step(cache, tokens): a language model without a source

`EncodesSource` alone is the first part of `Generates`, which encoders without a decoder have too. Tasks, decoding and
training call no other method of a model. Where code depends on what a model can do, it asks these protocols:
`isinstance` of a model, `issubclass` of its class. A class that has any of their methods has all of one protocol, with
its signatures; a test over every registered kind holds that.

All methods are pure. A `key` means training: dropout, sampling, running statistics; without one there is none of it.
A cache is opaque: a pytree whose leaves have the batch on one axis at most (`decoding.cache` finds it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Array, Float, Int, Key

#: Name -> array, as data give it (`data.protocol`): "source" and "target" [B T], "image" [B Y X C], "label" [B], ...
Batch: TypeAlias = Mapping[str, Array]


@runtime_checkable
class ScoresTokens(Protocol):
    """The likelihood of every target token, given the tokens before it and the source."""

    def log_likelihood(
        self, batch: Batch, *, key: Key[Array, ""] | None = None
    ) -> tuple[Mapping[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"}, aux).

        log p(token), the mean over the vocabulary of log p (for label smoothing), and which positions count. "aux" is
        what layers give beside their outputs: "encoder" and "decoder", with attention weights and alignments; auxiliary
        losses under "loss", figures under "metrics" (`tasks.auxiliary`); with a key, running statistics under "updates"
        (`layers.running_statistics`).
        """
        ...


@runtime_checkable
class Classifies(Protocol):
    """The probabilities of an example's classes."""

    def log_probabilities(
        self, batch: Batch, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, aux): as `ScoresTokens`, and "pooling" with the "weights" [B S] that say how
        much each position counts."""
        ...


@runtime_checkable
class Rates(Protocol):
    """Ratings of a text, and the words of it that they rest on."""

    def read(self, source: Int[Array, "B S"], *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """{"ratings" [B R] in [0, 1], "selected" [B S] (which words), "log_probability" [B S] (of that choice),
        "weights" [B S]}."""
        ...


@runtime_checkable
class EncodesSource(Protocol):
    """A source as the decoder, or a tool that looks inside, reads it."""

    def encode(self, source: Mapping[str, Any], *, key: Key[Array, ""] | None = None) -> Mapping[str, Any]:
        """The memory. A source is {"tokens" [B S]}, with "segments" and "positions" where rows are packed, or {"image"
        [B Y X C]} (`models.sequences.source`); a memory has "hidden" [B S D] where anything is computed of it."""
        ...


@runtime_checkable
class Generates(EncodesSource, Protocol):
    """Writes a text of a source, token by token. `decoding` knows no more of a model than this."""

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> Any:
        """The cache before the first token, for texts of up to `length` tokens (None: as many as the model can)."""
        ...

    def step(self, cache: Any, tokens: Int[Array, "B"]) -> tuple[Any, Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token, BOS first. "collected" is the aux of
        this position. V is the vocabulary; a model that copies adds the source's words."""
        ...


@runtime_checkable
class Continues(Protocol):
    """Goes on with a text. `decoding.continuation.Continued` makes a `Generates` of it, whose source is the prompt.

    At run time a `Generates` passes for one too, which has both methods: ask for `Generates` first.
    """

    def start(self, rows: int, length: int | None = None) -> Any:
        """The cache of `rows` empty texts, of up to `length` tokens as in `Generates.start`."""
        ...

    def step(self, cache: Any, tokens: Int[Array, "B"]) -> tuple[Any, Float[Array, "B V"], dict[str, Any]]:
        """As `Generates.step`."""
        ...


#: What every model is: something that a task can train.
Model: TypeAlias = ScoresTokens | Classifies | Rates

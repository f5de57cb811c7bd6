"""Sentence pairs for translation, by the name of a data set; batches are a pure function of (seed, step)."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from attention_research.data import batching as batching_module
from attention_research.data import plan as plan_module
from attention_research.data.batching import read_ahead
from attention_research.data.names import check_name
from attention_research.data.protocol import Batch
from attention_research.data.tokenised import Tokenised
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive

_EVALUATION_SEED = 1706


class Pairs(Tokenised):
    """Sentence pairs from any source (`_choice`), their joint vocabulary, and their batches.

    `max_length` counts tokens with the end of sentence. A training pair with a longer side is dropped and counted
    (`dropped`); a longer pair of validation or test is truncated. `train_examples` selects that many examples of a
    fixed permutation of the training split; the vocabulary is then trained on these only.

    Data are read on demand; `prepare` does the slow part and reports its progress.
    """

    #: Arrays of a batch that are not int32 -> their dtype.
    dtypes: ClassVar[Mapping[str, str]] = {}
    #: The largest number of generated tokens; None: the limit of the model.
    target_length: int | None = None
    #: Whether an example is a plain sentence pair, so that other files can be evaluated instead.
    reads_pairs: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        max_length: int,
        tokenizer: Callable[[], Any],
        batching: Callable[[], Any],
        train_examples: int | None,
    ):
        self.name, self.max_length = name, max_length
        self._new_tokenizer, self.batching, self.train_examples = tokenizer, batching(), train_examples
        self._report: Callable[[str], None] = lambda line: None
        self.plan = functools.lru_cache(maxsize=4)(self._plan)

    # Contents

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Downloads, builds, trains the vocabulary and tokenises, where missing; later calls only open the files.

        Raises `ConfigError` if the text is not the one that the run began with (`take`).
        """
        self._report = progress or self._report
        self._prepared.open("train", "validation")
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of the text of every split and of the vocabulary."""
        return self._prepared.fingerprint

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and targets of a split, indexed by example id."""
        return self._choice.text(split) if self.kept is None else self._prepared.text(split)

    def read(self, sources: Sequence[str]) -> list[list[int]]:
        """The tokens of new texts for a model, each with the end of sentence and not truncated."""
        return self.tokenizer.encode(list(sources))

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of the tokens that a model generated for some sources."""
        del sources
        return self.tokenizer.decode(tokens)

    def sizes(self) -> dict[str, int]:
        """The number of pairs of each split; for training, of those that are not too long."""
        sizes = {split: len(sources) for split, (sources, _) in self._prepared.tokens.items()}
        return sizes | {"train": len(self._train_ids)}

    @property
    def dropped(self) -> int:
        """The number of training pairs left out because a side is longer than `max_length`."""
        return len(self._prepared.tokens["train"][0]) - len(self._train_ids)

    def shortened(self) -> dict[str, int]:
        """Split -> the number of its examples that are truncated to `max_length` tokens."""
        longest = {
            split: np.maximum(*(side.lengths for side in sides))
            for split, sides in self._prepared.tokens.items()
            if split != "train" and len(sides[1])
        }
        counts = {split: int(np.sum(lengths > self.max_length)) for split, lengths in longest.items()}
        return {split: count for split, count in counts.items() if count}

    def describe(self) -> str:
        """A one-line description for the user: name, pairs, pieces."""
        return f"{self.name} · {len(self._train_ids):,} pairs · {self.tokenizer.size:,} pieces"

    # Training

    @functools.cached_property
    def _train_lengths(self) -> np.ndarray:
        return np.stack([side.lengths for side in self._prepared.tokens["train"]], axis=1)

    @functools.cached_property
    def _train_ids(self) -> np.ndarray:
        return np.flatnonzero(self._train_lengths.max(axis=1) <= self.max_length)

    def _plan(self, seed: int, batch_size: int) -> Any:
        """The order of training, without end; its examples are indices into the pairs that are not too long."""
        if not len(self._train_ids):
            raise ConfigError(f"max_length: no training pair of {self.name} has at most {self.max_length} tokens")
        return self.batching.plan(self._train_lengths[self._train_ids], seed, batch_size)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        if batch_size % hosts:
            raise ConfigError(f"training.batch_size: {batch_size} rows do not divide over {hosts} hosts")
        rows = self.plan(seed, batch_size)[step].host(host, hosts)
        sources, targets = (_Selected(tokens, self._train_ids) for tokens in self._prepared.tokens["train"])
        return batching_module.assemble(rows, sources, targets, self.batching.parts)

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end; threads read ahead. The step is the only state."""
        return read_ahead(lambda step: self.batch_at(seed, step, batch_size, host, hosts), start_step)

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        return [
            batching_module.batch_shapes(batch_size, source, target, self.batching.parts)
            for source, target in self.batching.shapes()
        ]

    # Evaluation

    def _evaluated(self, split: str, examples: int | None):
        """The token arrays of a split, and the ids to use: all, or the first `examples` of a fixed permutation."""
        if split not in self._prepared.tokens:
            raise ConfigError(f"{self.name} has no split {split!r}; it has {', '.join(self._prepared.tokens)}")
        sources, targets = self._prepared.tokens[split]
        ids = self._train_ids if split == "train" else np.arange(len(sources))
        if examples is not None:
            ids = np.sort(np.random.default_rng(_EVALUATION_SEED).permutation(ids)[:examples])
        return sources, targets, ids

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(example ids [B], batch) over a split, one example per row, each example exactly once.

        Batches are sorted from short to long, so the first few are not a random sample of the split; `examples` selects
        that many examples of a fixed permutation instead. Row i of a batch is example ids[i]; -1 marks rows that only
        fill the last batch. Both sides are truncated to `max_length` and padded to a length of the batching.
        """
        sources, targets, chosen = self._evaluated(split, examples)
        longest = np.minimum(np.maximum(sources.lengths, targets.lengths), self.max_length)
        order = chosen[np.argsort(longest[chosen], kind="stable")]
        widths = np.asarray(self.batching.evaluation_lengths())
        for start in range(0, len(order), batch_size):
            ids = order[start : start + batch_size]
            width = int(widths[np.searchsorted(widths, longest[ids[-1]])])
            rows = [(int(example),) for example in ids] + [()] * (batch_size - len(ids))
            batch = batching_module.assemble(
                plan_module.Step(width, width, tuple(rows)), sources, targets, batching_module.APART
            )
            yield np.pad(ids, (0, batch_size - len(ids)), constant_values=-1), batch

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The target tokens of a split (or of `examples` of it), concatenated: those that a loss counts."""
        return self.target_sentences(split, examples).flat

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The targets of a split (or of `examples` of it) as separate sequences."""
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))

    def target_counts(self) -> np.ndarray:
        """[tokens] the count of each token of the vocabulary in the training targets."""
        if self.kept is not None and "target_counts" in self.kept.learned:
            return np.asarray(self.kept.learned["target_counts"])
        return np.bincount(self._counted(), minlength=self.tokenizer.size)

    def _counted(self) -> np.ndarray:
        return self.target_tokens("train")


class PairData(Pairs):
    """A TFDS translation set, its joint vocabulary, and its batches (see `Pairs`).

    `source_language` and `target_language` name the two sides, such as "fr" and "en".
    """

    reads_pairs = True

    def __init__(
        self,
        *,
        name: str,
        source_language: str,
        target_language: str,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "sentencepiece",
        batching: Child["batching"] = "buckets",
        train_examples: Positive | None = None,
    ):
        check_name(name, kind="pairs")
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.languages, self.vocabulary_size = (source_language, target_language), vocabulary_size

    @functools.cached_property
    def _choice(self):
        from attention_research.data import prepared, sources

        available = sources.languages(self.name)
        for key, language in zip(("source_language", "target_language"), self.languages, strict=True):
            if language not in available:
                raise ConfigError(f"data.{key}: {self.name} has no {language!r}; it has {', '.join(available)}")
        return prepared.Choice(self.name, *self.languages, self.train_examples)


class _Selected:
    """A view of selected sequences of a token array."""

    def __init__(self, tokens, ids: np.ndarray):
        self._tokens, self._ids = tokens, ids

    def __getitem__(self, index: int) -> np.ndarray:
        return self._tokens[self._ids[index]]

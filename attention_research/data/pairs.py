"""Sentence pairs for translation: from a data set's name to batches that are a pure function of (seed, step)."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from attention_research.data import batching as batching_module
from attention_research.data import kept as kept_module
from attention_research.data import plan as plan_module
from attention_research.data.batching import read_ahead
from attention_research.data.kept import Kept
from attention_research.data.names import check_name
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.registry import Child, Positive

_EVALUATION_SEED = 1706


class Tokenised:
    """Text from outside this code: what is read of it (`_choice`), and the vocabulary that is trained on it."""

    name: str
    #: What `prepared.prepare` reads: a `prepared.Choice` or another frozen dataclass with its methods.
    _choice: Any
    _new_tokenizer: Callable[[], Any]
    _report: Callable[[str], None]
    #: Tokens of either side, the end of sentence included.
    max_length: int
    #: What a run keeps of these data (`data.kept`); None before the run has started.
    kept: Kept | None = None

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """Use the vocabulary that a run keeps. Text is read, and checked to be the run's, only where it is needed."""
        self.kept, self._report = kept, report

    def stored(self, run: Path) -> Kept:
        """What the folder of a run of these data keeps."""
        return kept_module.read(run, self._new_tokenizer)

    def learned(self) -> dict[str, Any]:
        """What a model relies on beside the vocabulary, and what costs the training text to know: it is kept."""
        return {}

    @functools.cached_property
    def _prepared(self) -> Any:
        from attention_research.data import kept_text, prepared

        if self.kept is not None:
            return kept_text.KeptText(self._choice, self.kept, self._report)
        return prepared.prepare(self._choice, self._new_tokenizer(), self._report)

    @property
    def vocabulary(self) -> Any:
        """The trained vocabulary as it is stored."""
        return self._prepared.tokenizer if self.kept is None else self.kept.tokenizer

    @property
    def tokenizer(self) -> Any:
        """The trained vocabulary."""
        return self.vocabulary

    def stamp(self) -> str | None:
        """Changes whenever the text may have changed; None where that cannot be told."""
        return self._choice.stamp()

    def is_here(self) -> bool:
        """Whether the text can be read without being fetched, built or tokenised first."""
        from attention_research.data import prepared

        with contextlib.suppress(Exception):  # it is not on this machine: each kind raises an error of its own
            return prepared.found(self._choice, self._new_tokenizer()) is not None
        return False

    def content(self) -> dict[str, Any]:
        """What a run keeps of the text: its digests, the files that it was read from, and what a user should know of it
        ("facts"): what was left out and cut, what is there twice, how many tokens."""
        prepared, vocabulary = self._prepared, self.vocabulary
        facts = {
            "left_out": self.omitted(),
            "cut": self.shortened(),
            "repeated": prepared.facts["repeated"],
            "vocabulary": {
                "asked": getattr(vocabulary, "vocabulary_size", vocabulary.size),
                "tokens": vocabulary.size,
            },
        }
        found = {"fingerprint": prepared.fingerprint, "splits": prepared.splits, "facts": facts}
        contents = getattr(self._choice, "contents", None)
        if contents is not None:
            named = lambda split: [{"path": path, "sha256": sha256} for path, sha256 in contents(split)]
            found["files"] = {split: named(split) for split in prepared.splits}
        return found

    @property
    def dropped(self) -> int:
        """Training examples that are left out because they have more than `max_length` tokens."""
        raise NotImplementedError

    def omitted(self) -> dict[str, dict[str, int]]:
        """Split -> reason -> how many examples are left out for it."""
        found = {split: dict(reasons) for split, reasons in self._prepared.facts["left_out"].items()}
        if self.dropped:
            found.setdefault("train", {})[f"more than {self.max_length} tokens"] = self.dropped
        return found

    def shortened(self) -> dict[str, int]:
        """Split -> how many of its examples are cut at `max_length` tokens."""
        raise NotImplementedError


class Pairs(Tokenised):
    """Sentence pairs wherever they come from (`_choice`), their joint vocabulary, and their batches.

    `max_length` counts tokens with the end of sentence; a training pair of which either side is longer is dropped and
    counted (`dropped`), one of validation or test is cut. `train_examples` takes that many examples of a fixed
    permutation of the training split, for which the vocabulary, too, is trained on these only.

    Nothing is read before it is asked for; `prepare` does the slow part with reports of progress.
    """

    #: Arrays of a batch that are not int32 -> what they are.
    dtypes: ClassVar[Mapping[str, str]] = {}
    #: At most so many tokens are written of a target; None: as many as the model can.
    target_length: int | None = None
    #: Whether an example is a sentence and its translation as they stand, so that other files could take their place.
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

    # What there is

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Fetch, build, train the vocabulary and tokenise what is missing; later it is only opened.

        Raises `ConfigError` where the text is not the one that the run began with (`take`).
        """
        self._report = progress or self._report
        self._prepared.open("train", "validation")
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of the text of every split and of the vocabulary."""
        return self._prepared.fingerprint

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sentences of a split: sources, targets. Example ids index them."""
        return self._choice.text(split) if self.kept is None else self._prepared.text(split)

    def read(self, sources: Sequence[str]) -> list[list[int]]:
        """The tokens of new texts as a model knows them, each with the end of sentence, uncut."""
        return self.tokenizer.encode(list(sources))

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of what a model wrote of some sources."""
        del sources
        return self.tokenizer.decode(tokens)

    def sizes(self) -> dict[str, int]:
        """Pairs of each split; of training those that are not too long."""
        sizes = {split: len(sources) for split, (sources, _) in self._prepared.tokens.items()}
        return sizes | {"train": len(self._train_ids)}

    @property
    def dropped(self) -> int:
        """Training pairs that are left out because a side is longer than `max_length`."""
        return len(self._prepared.tokens["train"][0]) - len(self._train_ids)

    def shortened(self) -> dict[str, int]:
        """Split -> how many of its examples are cut at `max_length` tokens."""
        longest = {
            split: np.maximum(*(side.lengths for side in sides))
            for split, sides in self._prepared.tokens.items()
            if split != "train" and len(sides[1])
        }
        counts = {split: int(np.sum(lengths > self.max_length)) for split, lengths in longest.items()}
        return {split: count for split, count in counts.items() if count}

    def describe(self) -> str:
        """One line for the user: name, pairs, pieces."""
        return f"{self.name} · {len(self._train_ids):,} pairs · {self.tokenizer.size:,} pieces"

    # Training

    @functools.cached_property
    def _train_lengths(self) -> np.ndarray:
        return np.stack([side.lengths for side in self._prepared.tokens["train"]], axis=1)

    @functools.cached_property
    def _train_ids(self) -> np.ndarray:
        return np.flatnonzero(self._train_lengths.max(axis=1) <= self.max_length)

    def _plan(self, seed: int, batch_size: int) -> Any:
        """The endless order of training; its examples are positions among the pairs that are not too long."""
        if not len(self._train_ids):
            raise ConfigError(f"max_length: no training pair of {self.name} has at most {self.max_length} tokens")
        return self.batching.plan(self._train_lengths[self._train_ids], seed, batch_size)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; of several hosts, the rows of one."""
        if batch_size % hosts:
            raise ConfigError(f"training.batch_size: {batch_size} rows do not divide over {hosts} hosts")
        rows = self.plan(seed, batch_size)[step].host(host, hosts)
        sources, targets = (_Selected(tokens, self._train_ids) for tokens in self._prepared.tokens["train"])
        return batching_module.assemble(rows, sources, targets, self.batching.parts)

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end, read ahead by threads. The step is the whole state."""
        return read_ahead(lambda step: self.batch_at(seed, step, batch_size, host, hosts), start_step)

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is read."""
        return [
            batching_module.batch_shapes(batch_size, source, target, self.batching.parts)
            for source, target in self.batching.shapes()
        ]

    # Evaluation

    def _evaluated(self, split: str, examples: int | None):
        """Token arrays of a split and the ids to look at: all, or the first `examples` of a fixed permutation."""
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
        """(example ids [B], batch) over a split, one example a row, every example exactly once.

        Batches go from short to long, so the first few are no sample of the split: `examples` takes that many of a
        fixed permutation instead. Row i of a batch is example ids[i]; -1 marks rows that only fill the last batch.
        Both sides are cut to `max_length`, and padded to one of the lengths of the batching.
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
        """The target tokens of a split (or of `examples` of it) one after the other: those that a loss counts."""
        return self.target_sentences(split, examples).flat

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The same, each target a sequence of its own."""
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))

    def target_counts(self) -> np.ndarray:
        """[tokens] how often each token of the vocabulary is a target in training."""
        if self.kept is not None and "target_counts" in self.kept.learned:
            return np.asarray(self.kept.learned["target_counts"])
        return np.bincount(self._counted(), minlength=self.tokenizer.size)

    def _counted(self) -> np.ndarray:
        return self.target_tokens("train")


class PairData(Pairs):
    """A TFDS translation set, its joint vocabulary, and its batches (see `Pairs`)."""

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
        check_name(name)
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
    """A token array seen through a choice of its sequences."""

    def __init__(self, tokens, ids: np.ndarray):
        self._tokens, self._ids = tokens, ids

    def __getitem__(self, index: int) -> np.ndarray:
        return self._tokens[self._ids[index]]

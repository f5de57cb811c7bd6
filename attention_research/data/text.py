"""Unlabelled text for pre-training: documents -> chunks of equal length -> (source, target) by an objective.

The documents of a split, each with the end of sentence, are concatenated in a fixed shuffled order and cut into chunks
that fill a row (Raffel et al. 2020, section 3.1.4). The rest at the end is not used. An example is a chunk, and its id
is the number of the chunk. Random choices of the objective are drawn again in each epoch; in evaluation they are the
same for all models and seeds.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from attention_research.data import sources
from attention_research.data.names import check_name
from attention_research.data.objectives.masked_tokens import MaskedText, MaskedTokens
from attention_research.data.prepared import Named, chosen
from attention_research.data.protocol import Batch
from attention_research.data.sentinels import WithSentinels
from attention_research.data.text_rows import TextRows
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive
from attention_research.tokens import EOS, PAD

_ORDER_SEED = 1910
#: In a set without a validation split, one training document in this many is for validation.
HELD_OUT = 100


@dataclasses.dataclass(frozen=True)
class Documents(Named):
    """The input of `prepared.prepare`: the feature `text` of a set as sources, without targets."""

    train_examples: int | None = None

    def splits(self) -> tuple[str, ...]:
        """The splits of the set, and validation."""
        return tuple(dict.fromkeys([*super().splits(), "validation"]))

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The documents of a split, in the order of the token arrays."""
        held_out = split in ("train", "validation") and "validation" not in super().splits()
        there = sources.open_split(self.name, "train" if held_out else split)
        ids = np.arange(len(there))
        if held_out:
            ids = ids[(ids % HELD_OUT == 0) == (split == "validation")]
        return [there[index]["text"] for index in ids[chosen(split, len(ids), self.train_examples)]], []


class Chunks(Sequence):
    """Documents in a fixed shuffled order, concatenated, in chunks of `length` tokens; read on demand."""

    def __init__(self, documents: TokenArray, length: int):
        self.documents, self.length = documents, length
        self.order = np.random.default_rng(_ORDER_SEED).permutation(len(documents))
        self.starts = np.concatenate([[0], np.cumsum(documents.lengths[self.order])])

    def __len__(self) -> int:
        return int(self.starts[-1]) // self.length

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]  # no slices
        if not 0 <= index < len(self):
            raise IndexError(index)
        start, stop = index * self.length, (index + 1) * self.length
        first, last = np.searchsorted(self.starts, [start, stop - 1], side="right") - 1
        joined = np.concatenate([self.documents[document] for document in self.order[first : last + 1]])
        return joined[start - self.starts[first] :][: self.length]


class ChunkPlan:
    """Step -> (epoch, chunk) of each row. Each epoch has its own order, and epochs follow each other without padding: a
    batch may contain the end of one epoch and the beginning of the next."""

    def __init__(self, chunks: int, seed: int, batch_size: int):
        self.chunks, self.batch_size = chunks, batch_size
        order = lambda epoch: np.random.default_rng([seed, epoch, chunks]).permutation(chunks)  # not a chunk's seed
        self._order = functools.lru_cache(maxsize=2)(order)

    def __getitem__(self, step: int) -> list[tuple[int, int]]:
        places = (divmod(step * self.batch_size + row, self.chunks) for row in range(self.batch_size))
        return [(epoch, int(self._order(epoch)[place])) for epoch, place in places]


class TextData(TextRows):
    """A TFDS set of texts, its vocabulary, and its batches; the interface is that of `Pairs`.

    `max_length` limits source and target; `objective` makes them from the longest chunks that this allows. The last
    `sentinels` of the `vocabulary_size` tokens are sentinels (`sentinels.WithSentinels`), and the tokenizer has that
    many fewer tokens. `train_examples` selects that many documents of a fixed permutation of the training split.
    """

    evaluation_seed = 10683

    def __init__(
        self,
        *,
        name: str,
        max_length: Positive,
        vocabulary_size: Positive,
        sentinels: Positive = 100,
        objective: Child["objective"] = "span_corruption",
        tokenizer: Child["tokenizer"] = "sentencepiece",
        train_examples: Positive | None = None,
    ):
        check_name(name, kind="text")
        super().__init__(name, max_length, tokenizer, lambda: None, train_examples)  # no batching by length
        self.vocabulary_size, self.sentinels, self.objective = vocabulary_size, sentinels, objective()
        self.lengths = self.objective.lengths(max_length)
        if self.lengths.raw < 2:
            raise ConfigError(f"data.max_length: no example has at most {max_length} tokens")
        if self.lengths.sentinels > sentinels:
            raise ConfigError(f"data.sentinels: {sentinels}; {max_length} tokens need {self.lengths.sentinels}")
        self._new_tokenizer = functools.partial(self._smaller, tokenizer)
        self._new_tokenizer()  # raises errors in the sizes
        self.chunks = functools.cache(self._chunks)

    def _smaller(self, tokenizer):
        """The untrained tokenizer, reduced by the number of sentinels."""
        smaller = tokenizer()
        if not self.sentinels < smaller.vocabulary_size <= self.vocabulary_size:
            raise ConfigError(
                f"data.sentinels: {self.sentinels} of {smaller.vocabulary_size} tokens of the tokenizer, which are to "
                f"be more than these and at most {self.vocabulary_size}, data.vocabulary_size"
            )
        smaller.vocabulary_size -= self.sentinels
        return smaller

    @functools.cached_property
    def _choice(self) -> Documents:
        features = sources.languages(self.name)
        if "text" not in features:
            raise ConfigError(f"data.name: {self.name} has no feature text; it has {', '.join(features)}")
        return Documents(self.name, self.train_examples)

    @functools.cached_property
    def tokenizer(self) -> WithSentinels:
        """The trained vocabulary with its sentinels."""
        return WithSentinels(self.vocabulary, self.vocabulary_size, self.sentinels)

    def _chunks(self, split: str) -> Chunks:
        """The raw tokens of a split's examples."""
        chunks = Chunks(self._texts(split), self.lengths.raw)
        if not len(chunks):
            raise ConfigError(
                f"data.max_length: the {split} text of {self.name} is shorter than {self.lengths.raw} tokens"
            )
        return chunks

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of source and target of each example of a split in evaluation, indexed by example id."""
        examples = [self.evaluated(split, chunk) for chunk in range(len(self.chunks(split)))]
        decode = lambda side: self.tokenizer.decode([tokens[tokens != EOS] for tokens in side])
        source, target = (decode(side) for side in zip(*examples, strict=True))
        return source, target

    def describe(self) -> str:
        """A one-line description for the user: name, chunks, pieces."""
        chunks = len(self.chunks("train"))
        return f"{self.name} · {chunks:,} chunks of {self.lengths.raw} tokens · {self.tokenizer.size:,} pieces"

    # Training

    def _plan(self, seed: int, batch_size: int) -> ChunkPlan:
        """The order of training, without end."""
        return ChunkPlan(len(self.chunks("train")), seed, batch_size)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        if batch_size % hosts:
            raise ConfigError(f"training.batch_size: {batch_size} rows do not divide over {hosts} hosts")
        part = batch_size // hosts
        rows = self.plan(seed, batch_size)[step][host * part : (host + 1) * part]
        return self._batch([self._example("train", chunk, seed, epoch, chunk) for epoch, chunk in rows], part)

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape of the training batches; reads nothing."""
        return [{"source": (batch_size, self.lengths.source), "target": (batch_size, self.lengths.target)}]

    def _example(self, split: str, chunk: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
        return self.objective(self.chunks(split)[chunk], np.random.default_rng(list(seed)))

    def _batch(self, examples: Sequence[tuple[np.ndarray, np.ndarray]], rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
        for row, example in enumerate(examples):
            for side, tokens in zip(batch.values(), example, strict=True):
                side[row, : len(tokens)] = tokens
        return batch

    # Evaluation

    def evaluated(self, split: str, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of a chunk, the same for every model and seed."""
        return self._example(split, chunk, self.evaluation_seed, chunk)

    def masked_text(self, split: str, examples: int | None = None) -> MaskedText | None:
        """A split, or `examples` of it, as a model reads it; None if the objective does not mask tokens in place."""
        if not isinstance(self.objective, MaskedTokens):
            return None
        batches = [batch for _, batch in self.evaluation_batches(split, 256, examples)]
        source = TokenArray.unpadded(one["source"] for one in batches)
        targets = [one["target"][one["source"] != PAD] for one in batches]
        return MaskedText(source, np.concatenate([np.zeros(0, np.int32), *targets]), self.objective.mask)

    def _rows(self, split: str) -> int:
        return len(self.chunks(split))

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        return self._batch([self.evaluated(split, int(chunk)) for chunk in ids], rows)

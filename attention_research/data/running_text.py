"""Running text for language models: every token of a text, in its order, with the tokens before it.

    source  target          two rows of the text a b c d e f g, with `context` 2 and `max_length` 4
    . .     a b c d
    c d     e f g .

The texts of a split are joined in their order, without ends of sentences. A row predicts the next `max_length` tokens
as "target", and reads the `context` tokens before them as "source"; "." is padding. So each token is predicted once, in
the last row too, and never with less than `context` tokens of the text before it, except at the beginning of a split.
A model without a source (`transformer_decoder`) does not read the context: for it, `context` is 0. The last token of
each text is left out; with the tokenizer `characters`, which writes no end of sentence, it is the last character.

The vocabulary is that of all splits together, as in Bengio et al. 2003, so that a word is unknown only if it is rare in
the whole corpus.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from attention_research.data.names import check_name
from attention_research.data.protocol import Batch
from attention_research.data.text import ChunkPlan, Documents
from attention_research.data.text_rows import TextRows
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.signatures import Child, NonNegative, Positive


@dataclasses.dataclass(frozen=True)
class WholeCorpus(Documents):
    """The texts of a set; all splits share one vocabulary."""

    def vocabulary_text(self, texts: Mapping[str, tuple[list[str], list[str]]]) -> list[str]:
        """The lines that the vocabulary is made from."""
        return [line for split in texts for line in texts[split][0]]


class RunningText(TextRows):
    """The texts of a TFDS set as one running text (see the module docstring); the interface is that of `Pairs`.

    An example is a row, and its id is its number in the text. Each epoch has the rows of the training split in its own
    random order. `context` is the number of tokens that a row reads before those that it predicts.
    """

    evaluation_seed = 2003

    def __init__(
        self,
        *,
        name: str,
        max_length: Positive,
        context: NonNegative,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
    ):
        check_name(name, kind="running_text")
        super().__init__(name, max_length, tokenizer, lambda: None, None)  # no batching by length
        self.vocabulary_size, self.context = vocabulary_size, context
        self.stream = functools.cache(self._stream)

    @functools.cached_property
    def _choice(self) -> WholeCorpus:
        return WholeCorpus(self.name)

    def _stream(self, split: str) -> np.ndarray:
        """All tokens of a split in the order of the text."""
        texts = self._texts(split)
        return np.delete(texts.flat, texts.offsets[1:] - 1)  # the end of sentence; of characters, the last of them

    def _rows(self, split: str) -> int:
        return -(-len(self.stream(split)) // self.max_length)

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of source and target of each row of a split."""
        rows = self._rows(split)
        batch = self._taken(split, range(rows), rows)
        return self.tokenizer.decode(batch["source"]), self.tokenizer.decode(batch["target"])

    def describe(self) -> str:
        """A one-line description for the user: name, tokens, size of the vocabulary."""
        return f"{self.name} · {len(self.stream('train')):,} tokens · vocabulary of {self.tokenizer.size:,}"

    def _plan(self, seed: int, batch_size: int) -> ChunkPlan:
        return ChunkPlan(self._rows("train"), seed, batch_size)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        if batch_size % hosts:
            raise ConfigError(f"training.batch_size: {batch_size} rows do not divide over {hosts} hosts")
        part = batch_size // hosts
        rows = self.plan(seed, batch_size)[step][host * part : (host + 1) * part]
        return self._taken("train", [row for _, row in rows], part)

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape of the training batches; reads nothing."""
        return [{"source": (batch_size, self.context), "target": (batch_size, self.max_length)}]

    def _taken(self, split: str, ids: Iterable[int], rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
        stream = self.stream(split)
        for row, number in enumerate(ids):
            start = number * self.max_length
            before, after = stream[max(start - self.context, 0) : start], stream[start : start + self.max_length]
            batch["source"][row, : len(before)] = before
            batch["target"][row, : len(after)] = after
        return batch

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The whole split as one sequence; of `examples` of it, the rows as separate sequences."""
        if examples is None:
            return TokenArray.join([self.stream(split)])
        return super().target_sentences(split, examples)

    def prepare(self, progress: Callable[[str], None] | None = None) -> "RunningText":
        """Downloads, builds and tokenises, where missing; later calls only open the files."""
        super().prepare(progress)
        if not len(self.stream("train")):
            raise ConfigError(f"data.name: the training text of {self.name} is empty")
        return self

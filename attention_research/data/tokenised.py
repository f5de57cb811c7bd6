"""External text with a vocabulary that is trained on it: what a run keeps of it, and the facts about it."""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attention_research.data import ends
from attention_research.data import kept as kept_module
from attention_research.data.kept import Kept
from attention_research.data.tokens import BySplit


class Tokenised:
    """External text: the part to read (`_choice`), and the vocabulary trained on it."""

    name: str
    #: The input of `prepared.prepare`: a `prepared.Choice` or another frozen dataclass with its methods.
    _choice: Any
    _new_tokenizer: Callable[[], Any]
    _report: Callable[[str], None]
    #: The largest number of tokens of a side, with the end of sentence.
    max_length: int
    #: The part of the data that a run keeps (`data.kept`); None before the run has started.
    kept: Kept | None = None

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """Uses the vocabulary that a run keeps. Text is read and checked against the run only when needed."""
        self.kept, self._report = kept, report

    def stored(self, run: Path) -> Kept:
        """The data kept in the folder of a run."""
        return kept_module.read(run, self._new_tokenizer)

    def learned(self) -> dict[str, Any]:
        """Other data that a model needs and that come from the training text; a run keeps them."""
        return {}

    @functools.cached_property
    def _prepared(self) -> Any:
        from attention_research.data import kept_text, prepared

        if self.kept is not None:
            return self._ended(kept_text.KeptText(self._choice, self.kept, self._report))
        return self._ended(prepared.prepare(self._choice, self._new_tokenizer(), self._report))

    def _ended(self, prepared: Any) -> Any:
        """The prepared text, of which every example has an end of sentence."""
        tokens = prepared.tokens
        if not ends.are_written(prepared.tokenizer):
            prepared.tokens = BySplit(tuple(tokens), lambda split: tuple(map(ends.added, tokens[split])))
        return prepared

    @property
    def vocabulary(self) -> Any:
        """The trained vocabulary as it is stored."""
        return self._prepared.tokenizer if self.kept is None else self.kept.tokenizer

    @property
    def tokenizer(self) -> Any:
        """The trained vocabulary, which writes the end of sentence after each text."""
        return self.vocabulary if ends.are_written(self.vocabulary) else ends.WithEnds(self.vocabulary)

    def stamp(self) -> str | None:
        """A string that changes if the text may have changed; None if this cannot be known."""
        return self._choice.stamp()

    def is_here(self) -> bool:
        """Whether the text can be read without downloading, building or tokenising first."""
        from attention_research.data import prepared

        with contextlib.suppress(Exception):  # the text is not on this machine; each kind raises its own error
            return prepared.found(self._choice, self._new_tokenizer()) is not None
        return False

    def content(self) -> dict[str, Any]:
        """The facts about the text that a run keeps: its digests, its files, and "facts" for the user: the numbers of
        examples left out, truncated and repeated, and the number of tokens."""
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
        if isinstance(self._choice, kept_module.HasFiles):
            contents = self._choice.contents
            named = lambda split: [{"path": path, "sha256": sha256} for path, sha256 in contents(split)]
            found["files"] = {split: named(split) for split in prepared.splits}
        return found

    @property
    def dropped(self) -> int:
        """The number of training examples left out because they have more than `max_length` tokens."""
        raise NotImplementedError

    def omitted(self) -> dict[str, dict[str, int]]:
        """Split -> reason -> the number of examples left out."""
        found = {split: dict(reasons) for split, reasons in self._prepared.facts["left_out"].items()}
        if self.dropped:
            found.setdefault("train", {})[f"more than {self.max_length} tokens"] = self.dropped
        return found

    def shortened(self) -> dict[str, int]:
        """Split -> the number of its examples that are truncated to `max_length` tokens."""
        raise NotImplementedError

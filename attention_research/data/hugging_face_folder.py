"""A folder as `save_pretrained` of Hugging Face Transformers writes it: config.json and whose token is which.

Read as JSON and nothing else: no code of the folder runs, nothing is unpickled.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research.data.numbering import Numbering
from attention_research.errors import ConfigError
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: model_type -> the names of the tokens that play our four parts, where config.json gives no id for them.
NAMED = {
    "bert": {PAD: "[PAD]", BOS: "[CLS]", EOS: "[SEP]", UNKNOWN: "[UNK]"},
    "gpt2": {UNKNOWN: "<|endoftext|>"},
    "marian": {UNKNOWN: "<unk>"},
    "t5": {UNKNOWN: "<unk>"},
    "vit": {},
}
#: Those that read images and have no tokens.
WITHOUT_TOKENS = ("vit",)
#: What config.json calls them; a decoder's first token before a beginning of the text.
KEYS = {PAD: ("pad_token_id",), EOS: ("eos_token_id",), BOS: ("decoder_start_token_id", "bos_token_id"),
        UNKNOWN: ("unk_token_id",)}  # fmt: skip
MASK, SENTINEL = "[MASK]", "<extra_id_{}>"


class CheckpointFolder:
    """`config` is its config.json; `tokens` the name of each token that a file of the folder names."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.config: dict[str, Any] = self.json("config.json")
        self.type = self.config.get("model_type")
        if self.type not in NAMED:
            known = ", ".join(NAMED)
            raise ConfigError(f"{self.path / 'config.json'}: model_type is {self.type!r}; expected one of {known}")

    def json(self, name: str) -> Any:
        """A file of the folder. Raises ConfigError, one line, where it is not there or no JSON."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no {name} there; expected a folder as save_pretrained writes it") from None
        except ValueError as error:
            raise ConfigError(f"{self.path / name}: no JSON ({error})") from None

    def has(self, name: str) -> bool:
        """Whether it has a file."""
        return (self.path / name).exists()

    @cached_property
    def tokens(self) -> dict[str, int]:
        """Name -> their id, of tokenizer.json, vocab.json or vocab.txt, whichever is there first; else none."""
        if self.has("tokenizer.json"):
            document = self.json("tokenizer.json")
            vocabulary = document["model"]["vocab"]
            named = vocabulary if isinstance(vocabulary, dict) else {one[0]: i for i, one in enumerate(vocabulary)}
            return {**named, **{one["content"]: one["id"] for one in document.get("added_tokens", ())}}
        if self.has("vocab.json"):
            return self.json("vocab.json")
        if self.has("vocab.txt"):
            lines = (self.path / "vocab.txt").read_text(encoding="utf-8").splitlines()
            return {name: number for number, name in enumerate(lines)}
        return {}

    @cached_property
    def numbering(self) -> Numbering:
        """Their ids in our order; what stands for something hidden or cut out comes last, as `sentinels` wants it."""
        if self.type in WITHOUT_TOKENS:
            return Numbering((), ())
        parts = {part: self._id(part) for part in KEYS}
        return Numbering.of(self.config["vocab_size"], parts, self._last())

    def _id(self, part: int) -> int | None:
        for key in KEYS[part]:
            if isinstance(self.config.get(key), int) and not (self.type == "bert" and part in (BOS, EOS)):
                return self.config[key]
        return self.tokens.get(NAMED[self.type].get(part, ""))

    def _last(self) -> list[int | None]:
        """The sentinels, from the last down: of T5 its own, of BERT [MASK], of the others none."""
        if self.type == "t5":
            known = [self.tokens[name] for number in range(1000) if (name := SENTINEL.format(number)) in self.tokens]
            return list(reversed(known)) or [None]
        return [self.tokens.get(MASK)] if self.type == "bert" else [None]

    @property
    def sentinels(self) -> int:
        """How many they are; one at least, as the objectives of running text ask for."""
        return len(self._last())

"""A folder written by `save_pretrained` of Hugging Face Transformers: its config.json and its special tokens.

The files are only read as JSON: no code of the folder runs, and nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research.data.lines import read_lines
from attention_research.data.numbering import Numbering
from attention_research.errors import ConfigError
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: model_type -> the names of the tokens used as our four special tokens, if config.json has no id for them.
NAMED = {
    "bert": {PAD: "[PAD]", BOS: "[CLS]", EOS: "[SEP]", UNKNOWN: "[UNK]"},
    "gpt2": {UNKNOWN: "<|endoftext|>"},
    "marian": {UNKNOWN: "<unk>"},
    "t5": {UNKNOWN: "<unk>"},
    "vit": {},
}
#: Model types that write an end-of-sentence token.
ENDING = ("marian", "t5")
#: Keys of config.json that are sizes.
SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "d_model", "d_kv", "d_ff",
    "num_layers", "num_decoder_layers", "num_heads", "relative_attention_num_buckets",
    "relative_attention_max_distance", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim",
    "encoder_attention_heads", "decoder_attention_heads", "image_size", "patch_size", "num_channels",
)  # fmt: skip
#: Model types that read images and have no tokens.
WITHOUT_TOKENS = ("vit",)
#: The keys of the special tokens in config.json, in order of preference.
KEYS = {PAD: ("pad_token_id",), EOS: ("eos_token_id",), BOS: ("decoder_start_token_id", "bos_token_id"),
        UNKNOWN: ("unk_token_id",)}  # fmt: skip
MASK, SENTINEL = "[MASK]", "<extra_id_{}>"


class Settings(dict[str, Any]):
    """The content of a JSON file of the folder. A missing key raises ConfigError with the file's name."""

    def __init__(self, path: Path, said: Mapping[str, Any]):
        super().__init__(said)
        self.path = path

    def __getitem__(self, key: str) -> Any:
        if self.get(key) is None:
            raise ConfigError(f"{self.path}: no key {key!r}; expected the file as save_pretrained writes it")
        return super().__getitem__(key)


class CheckpointFolder:
    """A checkpoint folder: `config` is its config.json, `tokens` are the tokens that its files name."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.config: Settings = self.json("config.json")
        self.type: str = self.config.get("model_type", "")
        if self.type not in NAMED:
            known = ", ".join(NAMED)
            raise self.wrong("config.json", f"model_type is {self.type!r}; expected one of {known}")
        for key in SIZES:
            if (size := self.config.get(key)) is not None and not (type(size) is int and size > 0):
                raise self.wrong("config.json", f"{key} is {size!r}; expected a whole number from 1 up")

    def wrong(self, name: str, why: str) -> ConfigError:
        """An error about a file of the folder, to be raised."""
        return ConfigError(f"{self.path / name}: {why}")

    def json(self, name: str) -> Settings:
        """The content of a JSON file. Raises ConfigError, one line, if it does not exist or is not a JSON object."""
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no {name} there; expected a folder as save_pretrained writes it") from None
        except OSError as error:
            raise self.wrong(name, f"cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise self.wrong(name, f"no JSON ({error})") from None
        if not isinstance(found, dict):
            raise self.wrong(name, f"a JSON {type(found).__name__}; expected an object with keys")
        return Settings(self.path / name, found)

    def has(self, name: str) -> bool:
        """Whether the folder has a file with this name."""
        return (self.path / name).exists()

    @cached_property
    def tokens(self) -> dict[str, int]:
        """Token name -> id, from the first of tokenizer.json, vocab.json and vocab.txt that exists; else empty."""
        file = next((name for name in ("tokenizer.json", "vocab.json", "vocab.txt") if self.has(name)), None)
        if file is None:
            return {}
        if file == "vocab.txt":
            named: dict[str, Any] = {name: number for number, name in enumerate(self.words)}
        elif file == "vocab.json":
            named = dict(self.json(file))
        else:
            named = self._of_tokenizer(self.json(file))
        size = self.config["vocab_size"]
        for name, number in named.items():
            if type(number) is not int or not 0 <= number < size:
                raise self.wrong(file, f"token {name!r} has the id {number!r}; expected 0 to {size - 1}, as vocab_size "
                                       f"in config.json is {size}")  # fmt: skip
        return named

    @cached_property
    def words(self) -> list[str]:
        """The lines of vocab.txt; the id of a token is its line number. For a repeated token the later line counts, and
        an empty line is an unused id, as in the tokenizers of Hugging Face."""
        return [line.rstrip() for line in read_lines(self.path / "vocab.txt")]

    def _of_tokenizer(self, document: Mapping[str, Any]) -> dict[str, Any]:
        try:
            vocabulary = document["model"]["vocab"]
            named = vocabulary if isinstance(vocabulary, dict) else {one[0]: i for i, one in enumerate(vocabulary)}
            return {**named, **{one["content"]: one["id"] for one in document.get("added_tokens") or ()}}
        except (KeyError, TypeError, IndexError) as error:
            why = f"no model.vocab and added_tokens as `tokenizers` writes them ({type(error).__name__}: {error})"
            raise self.wrong("tokenizer.json", why) from None

    @cached_property
    def numbering(self) -> Numbering:
        """The folder's ids in our order; mask and sentinel tokens come last, as `sentinels` expects."""
        if self.type in WITHOUT_TOKENS:
            return Numbering((), ())
        parts = {part: self._id(part) for part in KEYS}
        if self.type in ENDING and parts[EOS] is None:
            raise self.wrong("config.json", "no key 'eos_token_id'; expected the token that ends a text")
        if self.type in ENDING and parts[BOS] is None:
            raise self.wrong("config.json", "no key 'decoder_start_token_id'; expected the token that begins a text")
        missing = [name for part, name in NAMED[self.type].items() if self.type == "bert" and parts[part] is None]
        if self.tokens and missing:
            raise ConfigError(f"{self.path}: the vocabulary has no token {missing[0]}, which a BERT needs")
        return Numbering.of(self.config["vocab_size"], parts, self._last())

    def _id(self, part: int) -> int | None:
        for key in KEYS[part] if not (self.type == "bert" and part in (BOS, EOS)) else ():
            number, size = self.config.get(key), self.config["vocab_size"]
            if number is None:
                continue
            if type(number) is not int or not 0 <= number < size:
                raise self.wrong("config.json", f"{key} is {number!r}; expected 0 to {size - 1} (vocab_size is {size})")
            return number
        return self.tokens.get(NAMED[self.type].get(part, ""))

    def _last(self) -> list[int | None]:
        """The ids of the sentinels in our order: T5 has its own, BERT has [MASK], the others have none."""
        if self.type == "t5":
            known = [self.tokens[name] for number in range(1000) if (name := SENTINEL.format(number)) in self.tokens]
            return list(reversed(known)) or [None]
        return [self.tokens.get(MASK)] if self.type == "bert" else [None]

    @property
    def sentinels(self) -> int:
        """The number of sentinels; at least one, because the objectives for running text need one."""
        return len(self._last())

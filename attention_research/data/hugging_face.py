"""The vocabulary of a Hugging Face checkpoint folder, with its ids in our order (`data.numbering`).

The package `tokenizers` reads tokenizer.json and vocab.txt (WordPiece), and SentencePiece reads source.spm with
vocab.json (Marian). The vocabulary is copied into the data cache, so that a run can be evaluated after the folder is
deleted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attention_research.data import byte_level, storage
from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.data.numbering import Numbering
from attention_research.errors import ConfigError, RunError
from attention_research.signatures import Positive
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

SETTING = "config.data.tokenizer.folder"


class HuggingFaceTokenizer:
    """The tokenizer of the folder `folder`. `vocabulary_size` is that of the model, and at least the number of tokens.

    Marian encodes every text with the source vocabulary, and decodes pieces of both vocabularies.
    """

    def __init__(self, *, folder: str, vocabulary_size: Positive):
        self.folder, self.vocabulary_size = Path(folder), vocabulary_size
        self.path: Path | None = None

    def settings(self) -> dict:
        """The content of the vocabulary, independent of the path of the folder."""
        return {"kind": "hugging_face", "vocabulary": self.fit(()).fingerprint}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> HuggingFaceTokenizer:
        """Reads the vocabulary of the folder; trains nothing, whatever the text."""
        if self.path is None:
            content = json.dumps(_content(CheckpointFolder(self.folder)))
            path = storage.folder("tokenizers") / f"{storage.content_hash({}, [content])}.json"
            if not path.exists():
                with storage.written(path) as temporary:
                    temporary.write_text(content, encoding="utf-8")
            self.load(path)
        return self

    def load(self, path: Path) -> HuggingFaceTokenizer:
        """Reads a copy in the data cache."""
        content = Path(path).read_text(encoding="utf-8")
        stored = json.loads(content)
        self.path, self.fingerprint = Path(path), storage.content_hash({}, [content])
        self._numbering = Numbering(tuple(stored["theirs"]), tuple(stored["silent"]))
        self._below = len(self._numbering) - stored["sentinels"]
        if self._below > self.vocabulary_size:
            raise ConfigError(
                f"{SETTING}: the vocabulary of {self.folder} has {self._below:,} tokens, more than vocabulary_size, "
                f"{self.vocabulary_size:,}"
            )
        try:
            self._reader = READERS[stored["kind"]](stored["content"])
        except RunError:
            raise
        except Exception as error:  # `tokenizers` raises plain Exceptions
            reason = " ".join(str(error).split())
            raise ConfigError(f"{SETTING}: {self.folder}: its vocabulary cannot be read ({reason})") from None
        return self

    @property
    def size(self) -> int:
        """The number of tokens, with the special ones and without the sentinels."""
        return self._below

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence and without a beginning of sentence."""
        ours = self._numbering.ours
        return [[*(ours.get(token, UNKNOWN) for token in ids), EOS] for ids in self._reader.encode(list(texts))]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence, without special tokens."""
        return [self._reader.decode(self._visible(sequence)) for sequence in tokens]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each token as the folder's vocabulary writes it, with bytes as text (`byte_level`). An id that the folder
        lacks is in brackets."""
        names = [self._named(int(token)) for token in tokens]
        if not self._reader.has_bytes:
            return names
        special = [token <= UNKNOWN or name == f"[{token}]" for token, name in zip(tokens, names, strict=True)]
        return byte_level.marked(names, special)

    def _named(self, token: int) -> str:
        theirs = self._numbering.theirs[token] if token < len(self._numbering) else None
        return f"[{token}]" if theirs is None else self._reader.name(theirs)

    def _visible(self, sequence: Sequence[int]) -> list[int]:
        ids = [int(token) for token in sequence]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        known = [token for token in ids if token not in (PAD, BOS, UNKNOWN) and token < len(self._numbering)]
        there = (self._numbering.theirs[token] for token in known)
        return [token for token in there if token is not None]


class Fast:
    """A reader of tokenizer.json, or of the lines of vocab.txt, that uses `tokenizers`.

    `has_bytes` says whether the vocabulary is a byte-level one.
    """

    def __init__(self, content: Any):
        try:
            import tokenizers
        except ImportError:
            raise RunError(
                "this vocabulary needs tokenizers, the extra `weights`: pip install 'attention_research[weights]'"
            ) from None
        self.has_bytes = isinstance(content, str) and _of_bytes(json.loads(content))
        if isinstance(content, str):
            self.tokenizer = tokenizers.Tokenizer.from_str(content)
        else:
            words = {word: number for number, word in enumerate(content["words"])}
            options = {"lowercase": content["lowercase"], **content.get("options", {})}
            self.tokenizer = tokenizers.BertWordPieceTokenizer(words, **options)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The folder's ids of each text, without the special tokens of its template."""
        return [one.ids for one in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        """The text of the folder's ids."""
        return self.tokenizer.decode(ids, skip_special_tokens=True).strip()

    def name(self, token: int) -> str:
        """The name of one token."""
        return self.tokenizer.id_to_token(token) or f"[{token}]"


class Marian:
    """A reader of Marian vocabularies: source.spm splits text into pieces, vocab.json gives their ids."""

    has_bytes = False

    def __init__(self, content: dict[str, Any]):
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(content["source"]))
        self.ids = content["tokens"]
        self.names = {number: name for name, number in self.ids.items()}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The folder's ids of each text; a piece without an id becomes -1."""
        return [[self.ids.get(piece, -1) for piece in pieces] for pieces in self.processor.encode(texts, out_type=str)]

    def decode(self, ids: list[int]) -> str:
        """The text of the folder's ids."""
        return "".join(self.name(token) for token in ids).replace("\u2581", " ").strip()

    def name(self, token: int) -> str:
        """The name of one token."""
        return self.names.get(token, f"[{token}]")


def _of_bytes(content: dict[str, Any]) -> bool:
    """Whether a tokenizer.json decodes characters as bytes."""
    decoder = content.get("decoder") or {}
    return any(one.get("type") == "ByteLevel" for one in (decoder, *decoder.get("decoders", ())))


#: A setting of a WordPiece tokenizer in tokenizer_config.json -> its name in `tokenizers`.
OPTIONS = {"strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"}
READERS: dict[str, Any] = {"fast": Fast, "marian": Marian}


def _content(folder: CheckpointFolder) -> dict[str, Any]:
    """The content that is kept in the data cache."""
    numbering = folder.numbering
    stored: dict[str, Any] = {"theirs": numbering.theirs, "silent": numbering.silent, "sentinels": folder.sentinels}
    if folder.has("tokenizer.json"):
        return {**stored, "kind": "fast", "content": (folder.path / "tokenizer.json").read_text(encoding="utf-8")}
    if folder.has("source.spm"):
        source = base64.b64encode((folder.path / "source.spm").read_bytes()).decode()
        return {**stored, "kind": "marian", "content": {"source": source, "tokens": folder.tokens}}
    if folder.has("vocab.txt"):
        said = folder.json("tokenizer_config.json") if folder.has("tokenizer_config.json") else {}
        lower = bool(said.get("do_lower_case", True))
        options = {ours: said[key] for key, ours in OPTIONS.items() if said.get(key) is not None}
        content = {"words": folder.words, "lowercase": lower, **({"options": options} if options else {})}
        return {**stored, "kind": "fast", "content": content}
    raise ConfigError(f"{SETTING}: {folder.path} has no tokenizer.json, vocab.txt or source.spm")

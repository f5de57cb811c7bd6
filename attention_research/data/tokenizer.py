"""A SentencePiece vocabulary for both languages, trained on the training split only (Kudo & Richardson 2018).

Token ids: padding 0, beginning of sentence 1, end of sentence 2, unknown 3. Only the spaces of the text are normalised,
so that a decoded sentence can equal its reference.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from attention_research.data import storage
from attention_research.errors import ConfigError
from attention_research.signatures import Positive
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: A vocabulary is trained on at most this many lines, evenly spaced over the text.
MAX_LINES = 4_000_000
#: SentencePiece leaves out a longer line of the training text, in bytes.
MAX_BYTES = 16_384


class SentencePiece:
    """Byte-pair encoding (Sennrich et al. 2016) or a unigram model (Kudo 2018) over raw text.

    `vocabulary_size` is the requested size; a small text may give fewer pieces (`size`). The vocabulary is not trained
    on lines of more than `MAX_BYTES` bytes, such as long documents; `fit` reports their number.
    """

    def __init__(self, *, model_type: Literal["bpe", "unigram"] = "bpe", vocabulary_size: Positive):
        self.model_type = model_type
        self.vocabulary_size = vocabulary_size
        self.path: Path | None = None
        self._processor: Any = None
        self._fingerprint = ""

    def settings(self) -> dict:
        """What the pieces depend on, apart from the text. This includes the number of threads, which changes the
        result."""
        import sentencepiece

        return dict(
            model_type=self.model_type,
            vocab_size=self.vocabulary_size,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNKNOWN,
            unk_surface="",
            character_coverage=0.999999,
            normalization_rule_name="identity",
            hard_vocab_limit=False,
            max_sentence_length=MAX_BYTES,
            num_threads=2,
            minloglevel=2,
        ) | {"sentencepiece": sentencepiece.__version__}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> "SentencePiece":
        """Trains on the lines, or loads the vocabulary that was trained on the same lines with the same settings."""
        lines = lines[:: -(-len(lines) // MAX_LINES) or 1]
        key = storage.content_hash(self.settings(), lines)
        path = storage.folder("tokenizers") / f"{key}.model"
        with storage.locked(f"tokenizer-{key}"):
            if not path.exists():
                report(f"training a vocabulary of {self.vocabulary_size:,} {self.model_type} pieces")
                if long := sum(len(line.encode()) > MAX_BYTES for line in lines):
                    report(f"without {long:,} of {len(lines):,} lines, which have more than {MAX_BYTES:,} bytes each")
                with storage.written(path) as temporary:
                    temporary.write_bytes(self._train(lines))
        return self.load(path)

    def _train(self, lines: Sequence[str]) -> bytes:
        import sentencepiece

        options = {name: value for name, value in self.settings().items() if name != "sentencepiece"}
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **options)
        except (RuntimeError, OSError) as error:
            reason = str(error).splitlines()[-1].split("] ")[-1] or f"no line has 1 to {MAX_BYTES:,} bytes"
            message = f"vocabulary_size: {self.vocabulary_size} pieces cannot be made of this text: {reason}"
            raise ConfigError(message) from error
        return model.getvalue()

    def load(self, path: Path) -> "SentencePiece":
        """Loads a trained vocabulary from its file."""
        import sentencepiece

        model = Path(path).read_bytes()
        self.path = Path(path)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._fingerprint = hashlib.sha256(model).hexdigest()[:20]
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of the trained model, 20 hexadecimal digits."""
        return self._fingerprint

    @property
    def size(self) -> int:
        """The number of pieces, with the special ones; at most `vocabulary_size`."""
        return self._processor.get_piece_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence and without a beginning of sentence."""
        return self._processor.encode(list(texts), add_eos=True, num_threads=2)

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence, without special tokens."""
        texts = self._processor.decode([self._visible(sequence) for sequence in tokens])
        return [" ".join(text.split()) for text in texts]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The piece of each token, with U+2581 before a word; for ids beyond `size`, the id in brackets."""
        named = lambda token: self._processor.id_to_piece(token) if token < self.size else f"[{token}]"
        return [named(int(token)) for token in tokens]

    def _visible(self, sequence: Sequence[int]) -> list[int]:
        """Only ids of pieces: the vocabulary of a model may be larger than that of a small text (`size`)."""
        ids = [int(token) for token in sequence]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return [token for token in ids if UNKNOWN < token < self.size]

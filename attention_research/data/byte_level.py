"""Byte-level vocabularies, Radford et al. 2019 (GPT-2): their pieces as those of SentencePiece.

Such a vocabulary writes each byte as one character: a printable one as itself, the others as the characters from U+0100
on. A space, which belongs to the word after it, becomes U+0120. SentencePiece writes U+2581 for a space, one of them
before each text, and a byte that is no character as <0xC3>.
"""

from __future__ import annotations

from collections.abc import Sequence

_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
#: Character of a piece -> byte.
BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + i): byte for i, byte in enumerate(_OTHERS)}


def marked(names: Sequence[str], special: Sequence[bool]) -> list[str]:
    """The pieces of a sequence with U+2581 for spaces, and before a word without a space at the beginning of a text or
    after a line break. Special tokens are left as they are.

    >>> marked(["</s>", "the", "Ġcat", "s", "Ċ", "Ã"], [True] + 5 * [False])
    ['</s>', '▁the', '▁cat', 's', '▁<0x0A>', '▁<0xC3>']
    """
    pieces: list[str] = []
    begins = True
    for name, is_special in zip(names, special, strict=True):
        if is_special or not set(name) <= BYTES.keys():
            pieces.append(name)
            begins = True
            continue
        raw = bytes(BYTES[character] for character in name)
        begins = begins or raw[:1].isspace()
        pieces.append((_MARK if begins and raw[:1] != b" " else "") + _text(raw))
        begins = raw[-1:].isspace() and raw[-1:] != b" "
    return pieces


def _text(raw: bytes) -> str:
    """Decodes bytes. Spaces become U+2581. Bytes that are not printable characters are written in hexadecimal."""
    text = raw.decode(errors="surrogateescape").replace(" ", _MARK)
    return "".join(c if c.isprintable() else "".join(f"<0x{byte:02X}>" for byte in c.encode(errors="surrogateescape"))
                   for c in text)  # fmt: skip

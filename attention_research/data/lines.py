r"""Text files as lists of lines. All text files of the user are read by this module.

The encoding is strict UTF-8. Only "\n" separates lines, and one "\r" before it is part of the separator. U+2028,
U+0085, the form feed and the other characters at which `str.splitlines` splits are ordinary text, so that line numbers
are those of the file. A byte order mark at the start of the file is dropped. A gzip file is decompressed.
"""

import codecs
import gzip
import zlib
from pathlib import Path

from attention_research.errors import ConfigError

_GZIP = b"\x1f\x8b"  # UTF-8 text cannot begin with this
_WIDE = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


def read_lines(path: Path | str, name: str | None = None) -> list[str]:
    """The lines of a file, plain or gzip. `name` is its name in messages, by default the path.

    Raises `ConfigError`, one line, if the file cannot be read, its compression is damaged, or it is not UTF-8.
    """
    return decode_lines(read_content(path, name), str(path) if name is None else name)


def read_content(path: Path | str, name: str | None = None) -> bytes:
    """The bytes of a file, decompressed if it is gzip; raises as `read_lines`."""
    path, name = Path(path), str(path) if name is None else name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from None
    if not data.startswith(_GZIP):
        if path.suffix == ".gz" and data:
            raise ConfigError(f"{name}: not a gzip file, as its name says; rename it, or compress it again")
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{name}: damaged gzip file ({error}); compress it again") from None


def decode_lines(data: bytes, name: str) -> list[str]:
    r"""The lines of UTF-8 text. Raises `ConfigError` with `name` and the line number if the text is not UTF-8.

    >>> decode_lines("one\r\n\n\u2028two\f".encode(), "a file")
    ['one', '', '\u2028two\x0c']
    >>> decode_lines(b"", "an empty file"), decode_lines(b"\n", "an empty line")
    ([], [''])
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        encoding = _WIDE.get(data[:2])
        hint = f"; it begins as {encoding} does: save it as UTF-8" if encoding else ""
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{name} is not UTF-8 text: byte {data[error.start]:#x} in line {line}{hint}"
        raise ConfigError(message) from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]

"""The lines of a user's text file, whatever other characters Python or a terminal takes for the end of a line."""

import gzip

import pytest

from attention_research.data.lines import decode_lines, read_lines
from attention_research.errors import ConfigError

#: Every character at which `str.splitlines` splits, except "\n".
OTHER_ENDS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.mark.parametrize("end", OTHER_ENDS, ids=[f"U+{ord(end):04X}" for end in OTHER_ENDS])
def test_only_a_line_feed_ends_a_line(end):
    assert decode_lines(f"one{end}1\n{end}\ntwo{end}".encode(), "x") == [f"one{end}1", end, f"two{end}"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\rc", ["a\r", "b\rc"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
    ],
)
def test_line_ends_and_byte_order_marks(data, lines):
    assert decode_lines(data, "x") == lines


def test_compressed_text_is_decompressed(tmp_path):
    text = "eins\r\nzwei\u2028drei\n".encode()
    for name, data in (("plain", text), ("packed.gz", gzip.compress(text)), ("packed.txt", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        assert read_lines(tmp_path / name) == ["eins", "zwei\u2028drei"], name


WRONG = {
    "not UTF-8": ("a.txt", b"a\nb\nd\xe9", "{path} is not UTF-8 text: byte 0xe9 in line 3"),
    "UTF-16": ("a.txt", "añ".encode("utf-16"), "{path} is not UTF-8 text: byte 0xff in line 1; it begins as UTF-16"),
    "truncated": ("a.gz", gzip.compress(b"one\n" * 99)[:-9], "{path}: damaged gzip file"),
    "damaged": ("a.gz", gzip.compress(bytes(range(256)))[:30] + b"\xff" * 99, "{path}: damaged gzip file"),
    "misnamed": ("a.gz", b"plain", "{path}: not a gzip file, as its name says"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, case):
    name, data, message = WRONG[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_lines(path)
    assert str(caught.value).startswith(message.format(path=path))
    for absent, reason in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file or directory")):
        with pytest.raises(ConfigError, match=f"^{absent}: cannot be read: {reason}$"):
            read_lines(absent)

"""`generate`: one output line for each input line, whatever it contains, and a note on cut or replaced input."""

import io
import json
import os
import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.data.byte_tokens import Bytes
from attention_research.data.characters import Characters
from attention_research.data.words import Words
from attention_research.tokens import EOS
from attention_research.workdirs.generation import generate, one_line
from attention_research.workdirs.given_text import given_lines

LONGEST = 6
#: Every character at which some readers split lines.
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "known.words"
    path.write_text("one\ntwo\nthree\n")
    return Words(vocabulary_size=7).load(path)


def trained(tokenizer, decoded, *, continues=False, extra_length=50):
    """The parts of a run that `generate` needs, with this tokenizer.

    `decoded` maps the input ids to the output text.
    """
    data = SimpleNamespace(
        tokenizer=tokenizer, read=tokenizer.encode, written=lambda tokens, sources: tokenizer.decode(tokens)
    )
    return SimpleNamespace(
        config=SimpleNamespace(resolved={"data": {"max_length": LONGEST}}), continues=continues, data=data,
        decoding=SimpleNamespace(extra_length=extra_length), most_tokens=lambda: LONGEST + 2,
        decoded=lambda encoded: [decoded(tokens) for tokens in encoded],
    )  # fmt: skip


def copied(tokens):
    return tokens


def test_blank_cut_and_unknown_lines_are_reported(words):
    said = []
    lines = ["one two", "", " \t\u2028", "two " * 10_000, "one four five", "\ufeff"]
    assert generate(trained(words, copied), lines, said.append) == [
        "one two", "", "", "two two two two two", "one <unk> <unk>", "<unk>",
    ]  # fmt: skip
    assert said == [
        "blank, and left blank: lines 2, 3",
        "cut to the first 5 tokens (max_length): line 4 (10,000 tokens)",
        "read in part as the unknown token, since the vocabulary lacks it: lines 5 (2 tokens), 6 (1 token)",
    ]


def test_a_prompt_of_one_character_is_continued(tmp_path):
    path, said = tmp_path / "known.characters", []
    path.write_text("ab")
    tokenizer = Characters(vocabulary_size=6).load(path)
    model = trained(tokenizer, lambda tokens: [*tokens, 5], continues=True)
    assert generate(model, ["a", ""], said.append) == ["ab", ""]
    assert said == ["blank, and left blank: line 2"]


def test_unchanged_lines_are_not_reported(words):
    said = []
    assert generate(trained(words, copied), ["one", "two three"], said.append) == ["one", "two three"]
    assert generate(trained(words, copied), [], said.append) == [] and said == []


def test_many_lines_are_named_in_part_and_counted(words):
    said = []
    generate(trained(words, copied), [""] * 1234, said.append)
    (line,) = said
    assert line.startswith("blank, and left blank: lines 1, 2, 3, ") and line.endswith(" 20 and 1,214 more")


def test_a_hypothesis_at_the_limit_is_reported(words):
    said = []
    generate(trained(words, lambda tokens: [4] * 3 + [EOS], extra_length=2), ["one", "two two two"], said.append)
    assert said == ["output ends at its length limit (decoding.extra_length, max_length): line 1"]


def test_a_prompt_keeps_its_end_and_precedes_its_continuation(words):
    """Room for a continuation is left: the prompt takes 4 of the model's 8 tokens."""
    said, seen = [], []

    def goes_on(tokens):
        seen.append(tokens)
        return [*tokens[:-1], 6, EOS]

    lines = ["one  four ", "one two three one two three", ""]
    outputs = generate(trained(words, goes_on, continues=True), lines, said.append)
    assert outputs == ["one  four three", "one two three one two three three", ""]
    assert seen == [[4, 3, EOS], [4, 5, 6, EOS]]
    assert said[1] == "cut to the last 3 tokens (max_length): line 2 (6 tokens)"


def test_a_prompt_with_an_end_inside_is_refused(words):
    """As <|endoftext|> of GPT-2: decoding would end there, or write another token in its place."""
    tokenizer = SimpleNamespace(encode=lambda lines: [[4, EOS, 5, EOS], [4, EOS]][: len(lines)], decode=words.decode)
    with pytest.raises(ConfigError, match="--input: line 1 has the end of a text inside its prompt"):
        generate(trained(tokenizer, copied, continues=True), ["one<end>two", "one"], lambda line: None)
    assert generate(trained(tokenizer, lambda tokens: [5, EOS]), ["one<end>two"], lambda line: None) == ["two"]


def test_a_byte_model_continues_within_a_word():
    tokenizer = Bytes(vocabulary_size=260)
    made = trained(tokenizer, lambda tokens: [*tokens[:-1], *tokenizer.encode(["c"])[0]], continues=True)
    assert generate(made, ["ab"], lambda line: None) == ["abc"]


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.text(st.sampled_from(BREAKS + " \tab\x00é\u0301🙂\u200b\ufeff"), max_size=4), max_size=5))
def test_every_line_gives_one_line(lines):
    """The model writes back the bytes that it reads, plus a line break of every kind."""
    written = lambda tokens: [*tokens[:-1], *(byte + 4 for byte in BREAKS.encode()), 101, EOS]
    outputs = generate(trained(Bytes(vocabulary_size=260), written), lines, lambda line: None)
    assert len(outputs) == len(lines) and all(one.splitlines() in ([], [one]) for one in outputs)
    assert all(bool(one) == bool(line.strip()) for one, line in zip(outputs, lines, strict=True))


def test_every_character_that_splits_lines_is_known():
    assert set(BREAKS) == {chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1}
    assert all(one_line(f"a{character}b") == "a b" for character in BREAKS)


#: name -> (--input, its interpretation or the start of the error message)
TEXTS = {
    "sentence": ("Ein Satz.", ["Ein Satz."]),
    "several lines": ("one\ntwo\r\n", ["one", "two"]),
    "long sentence": ("palabra " * 60, ["palabra " * 60]),
    "long word": ("a" * 5000, ["a" * 5000]),
    "separators of lines": ("a\u2028b\x85c\fd", ["a\u2028b\x85c\fd"]),
    "NUL": ("a\0b", ["a\0b"]),
    "emoji": ("🙂e\u0301", ["🙂e\u0301"]),
    "slash in a sentence": ("either/or, they say", ["either/or, they say"]),
    "only spaces": (" \t", [" \t"]),
    "file": ("{d}/sentences.txt", ["one", "", "two"]),
    "pipe": ("{fd}", ["piped"]),
    "empty": ("", "--input= is empty"),
    "folder": ("{d}", "this is a folder"),
    "a word that is the name of a folder": ("translations", ["translations"]),
    "misspelt": ("{d}/sentence.txt", "no such file; did you mean {d}/sentences.txt?"),
    "a missing file": ("{d}/x", "no such file; to have it read as text"),
    "no folder": ("nowhere/of/it.txt", "no such file; to have it read as text"),
    "nearly an existing name": ("newstst.fr", "no such file; did you mean newstest.fr?"),
    "one word with a dot": ("U.S.A", ["U.S.A"]),
    "suffix": ("sentnces.tsv", "no such file"),
    "not UTF-8": ("{d}/latin.txt", "is not UTF-8 text: byte 0xe9 in line 2"),
    "argument that is not UTF-8": ("caf\udce9", "--input is not UTF-8 text: byte 0xe9 in line 1"),
    "half a surrogate pair": ("a\ud800b", "half of a surrogate pair"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_input_is_text_a_file_or_an_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value, expected = TEXTS[name]
    (tmp_path / "sentences.txt").write_bytes(b"\xef\xbb\xbfone\r\n\ntwo")
    (tmp_path / "newstest.fr").touch()
    (tmp_path / "latin.txt").write_bytes(b"one\ncaf\xe9\n")
    reading, writing = os.pipe()
    os.write(writing, b"piped\n")
    os.close(writing)
    value = value.replace("{d}", str(tmp_path)).replace("{fd}", f"/dev/fd/{reading}")
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=re.escape(expected.replace("{d}", str(tmp_path)))):
            given_lines(value)
    else:
        assert given_lines(value) == expected
    os.close(reading)


def test_a_word_that_is_the_name_of_a_folder_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "translations").mkdir()
    said = []
    assert given_lines("translations", said.append) == ["translations"]
    assert said == ["--input=translations: read as text; a folder has this name, too"]


CONTENTS = [(b"", []), (b"\n", [""]), (b"\xef\xbb\xbfa\n\nb", ["a", "", "b"]), (b"a\xe2\x80\xa8b", ["a\u2028b"])]


@pytest.mark.parametrize(("content", "lines"), CONTENTS)
def test_standard_input(content, lines, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert given_lines("-") == lines


def test_an_empty_input_is_an_empty_document(tmp_path, capsys, root):
    (tmp_path / "config.json").write_text(load(root / "configs/translation/transformer.py:smoke").to_json())
    (tmp_path / "empty.txt").write_text("")
    words = ["generate", f"--workdir={tmp_path}", f"--input={tmp_path}/empty.txt"]
    assert main(words) == 0 and capsys.readouterr().out == ""
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [] and err.endswith("empty.txt: no line, so nothing is written\n")


def test_standard_input_that_is_not_utf8_or_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff")))
    with pytest.raises(ConfigError, match="^standard input is not UTF-8 text: byte 0xff in line 2"):
        given_lines("-")
    monkeypatch.setattr(sys, "stdin", None)
    assert given_lines("-") == []


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_a_file_that_cannot_be_read(error, tmp_path, monkeypatch):
    path = tmp_path / "sentences.txt"
    path.write_text("one\n")

    def refuse(self):
        raise error

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    with pytest.raises(ConfigError, match=f"cannot be read: {error.strerror}"):
        given_lines(str(path))


def test_the_help_explains_which_input_is_a_file(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "--help"])
    assert "is read as a file name" in " ".join(capsys.readouterr().out.split())

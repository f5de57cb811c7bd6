"""Local text files for language models: their splits, their windows, and one line for every mistake."""

import gzip
import os
from functools import partial

import numpy as np
import pytest

from attention_research.cli import main
from attention_research.config import ConfigError
from attention_research.data import kept
from attention_research.data.byte_tokens import Bytes
from attention_research.data.characters import Characters
from attention_research.data.text_files import TextFiles, WholeFiles
from attention_research.data.tokenizer import SentencePiece
from attention_research.tasks.perplexity import unigram_perplexity

#: 397 characters in 19 lines.
TEXT = "".join(f"line {number}, with a\u2028break\n" for number in range(1, 20))[:396] + "\n"


@pytest.fixture
def book(tmp_path, data_home):
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


def files(*train, tokenizer=Characters, vocabulary_size=300, **splits):
    return TextFiles(
        train=tuple(map(str, train)),
        **splits,
        max_length=5,
        vocabulary_size=vocabulary_size,
        tokenizer=partial(tokenizer, vocabulary_size=vocabulary_size),
    )


def read(data, split):
    return "".join(data.tokenizer.decode([data.stream(split)]))


def test_the_end_of_the_training_text_is_held_out(book, tmp_path):
    data = files(book).prepare()
    assert len(TEXT) == 397
    assert [read(data, split) for split in ("train", "validation", "test")] == [TEXT[:357], TEXT[357:377], TEXT[377:]]
    other = tmp_path / "other.txt"
    other.write_bytes(b"line 1\r\nline 2")  # two line ends, of which one is missing
    data = files(book, other, test=(str(other),)).prepare()
    whole, end = TEXT + "line 1\nline 2\n", 411 * 19 // 20
    assert [read(data, split) for split in ("train", "validation", "test")] == [whole[:end], whole[end:], whole[397:]]
    data = files(book, validation=(str(other),), test=(str(other),)).prepare()
    assert read(data, "train") == TEXT and read(data, "validation") == "line 1\nline 2\n"


def test_batches_are_windows_of_the_text(book):
    data = files(book).prepare()
    ids = np.array(data.tokenizer.encode([TEXT[:357]])[0])
    for step in range(5):
        batch = data.batch_at(seed=3, step=step, batch_size=4)
        places = np.random.default_rng([3, step]).integers(357 - 5, size=4)
        np.testing.assert_array_equal(batch["target"], [ids[place + 1 : place + 6] for place in places])
        np.testing.assert_array_equal(batch["target_before"], ids[places])
    assert data.sizes() == {"train": 72, "validation": 4, "test": 4}


def test_bytes_and_compressed_files(book):
    with gzip.open(f"{book}.gz", "wb") as packed:
        packed.write(book.read_bytes())
    data = files(f"{book}.gz", tokenizer=Bytes).prepare()
    assert data.stream("train").tolist() == [*(byte + 4 for byte in TEXT[:357].encode()), 2]


def test_what_was_prepared_is_found_again_until_the_file_changes(book, monkeypatch):
    first = files(book).prepare()
    with monkeypatch.context() as patch:
        patch.setattr(WholeFiles, "text", lambda *_: pytest.fail("read the text"))
        assert files(book).prepare().fingerprint == first.fingerprint
    book.write_text(TEXT.replace("17", "18"), encoding="utf-8")
    assert files(book).prepare().fingerprint != first.fingerprint


CONFIG = ("--config=configs/language_modelling/nanogpt.py:smoke", "--config.data={'kind': 'text_files'}")


def run(root, monkeypatch, capsys, *words):
    """(exit status, standard error) of a command in the root of the repository."""
    monkeypatch.chdir(root)
    status = main(list(words))
    return status, capsys.readouterr().err


def test_a_run_notices_a_changed_text_and_finds_a_moved_one(book, tmp_path, root, monkeypatch, capsys):
    folder, moved = tmp_path / "run", tmp_path / "moved.txt"
    words = (*CONFIG, f"--config.data.train={book}", "--config.training.steps=1")
    assert run(root, monkeypatch, capsys, "train", *words, f"--workdir={folder}")[0] == 0
    stored = kept.read(folder)
    assert [stored.files(split) for split in ("train", "validation", "test")] == [[str(book)]] * 3
    moved.write_bytes(book.read_bytes())
    book.write_text(TEXT.upper(), encoding="utf-8")
    status, said = run(root, monkeypatch, capsys, "evaluate", f"--workdir={folder}")
    assert status == 2 and f"config.data.validation: {book} has changed since the run in {folder} began" in said
    data = files(moved)
    data.take(stored, print)
    assert read(data, "test") == TEXT[377:]


def test_mistakes_are_one_line(book, tmp_path, root, monkeypatch, capsys):
    where, words = f"--workdir={tmp_path / 'run'}", f"--config.data.train={tmp_path / 'bok.txt'}"
    status, said = run(root, monkeypatch, capsys, "train", *CONFIG, where, words)
    assert status == 2
    assert said == f"error: config.data.train: no such file: {tmp_path / 'bok.txt'}; did you mean {book}?\n"
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=r"^config.data.train: expected at least one file$"):
        files()
    empty = tmp_path / "empty.txt"
    empty.touch()
    with pytest.raises(ConfigError, match=rf"^config.data.test: no text in {empty}$"):
        files(book, test=(str(empty),)).prepare()
    with pytest.raises(ConfigError, match=r"^config.data.validation: no text in "):
        empty.write_text("short")
        files(empty).prepare()
    book.write_bytes(b"d\xe9j\xe0")
    with pytest.raises(ConfigError, match=r"^config.data.train: .* is not UTF-8 text: byte 0xe9 in line 1$"):
        files(book).prepare()


def test_a_text_without_a_validation_window_is_refused_before_the_first_step(book, tmp_path, root, monkeypatch, capsys):
    """Otherwise the run would end at its first validation, before its first checkpoint."""
    book.write_text(TEXT[:300], encoding="utf-8")
    words = (*CONFIG, f"--config.data.train={book}", "--config.training.steps=2", f"--workdir={tmp_path / 'run'}")
    status, said = run(root, monkeypatch, capsys, "train", *words)
    assert status == 2 and "error: data.max_length: the validation text of" in said and "step 2/2" not in said
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_ends_of_lines_is_refused(book):
    with pytest.raises(ConfigError, match=r"^config.data.tokenizer: this vocabulary has no token for the end of a li"):
        files(book, tokenizer=SentencePiece, vocabulary_size=40).prepare()
    book.write_text("one line without an end. " * 40)
    files(book, tokenizer=SentencePiece, vocabulary_size=20).prepare()
    files(book).prepare()


def test_a_text_that_is_gone(book):
    data = files(book).prepare()
    os.remove(book)
    with pytest.raises(ConfigError, match=r"^config.data.train: no such file: "):
        data._choice.text("validation")


def test_a_perplexity_of_a_run_needs_no_training_text(book, tmp_path):
    """The unigram model is that of the training text, which may be gone or another one."""
    test = tmp_path / "test.txt"
    test.write_text("line 3, with a break\n")
    data = files(book, validation=(str(test),), test=(str(test),)).prepare()
    perplexity = unigram_perplexity(data, "test", None)
    stored = kept.Kept(tmp_path, data.content(), kept.Trained(data.tokenizer), data.learned())
    for change in (lambda: book.write_text(TEXT.upper(), encoding="utf-8"), lambda: os.remove(book)):
        change()
        later = files(book, validation=(str(test),), test=(str(test),))
        later.take(stored, print)
        assert unigram_perplexity(later, "test", None) == perplexity

"""Local text files as a data set: reading, caching, and one line for every error."""

import gzip
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attention_research.cli import main
from attention_research.config import ConfigError
from attention_research.data.batching import Buckets
from attention_research.data.characters import Characters
from attention_research.data.files import FileData, Files
from attention_research.data.given_files import GivenFiles
from attention_research.data.tokenizer import SentencePiece
from attention_research.tokens import EOS

FRENCH = {
    "train": [f"le mot {'un deux trois quatre cinq'.split()[i % 5]} {'ab' * (i % 7)}" for i in range(41)],
    "validation": ["le  mot un ", "", "le mot deux"],
    "test": ["le mot trois", "le mot quatre"],
}
ENGLISH = {
    split: [line.replace("le ", "the ").replace("mot", "word") for line in lines] for split, lines in FRENCH.items()
}
ENGLISH["validation"][1] = "a line whose French is empty"


@pytest.fixture
def corpus(tmp_path, data_home):
    """A folder of six files: split -> its two paths."""
    paths = {}
    for split in FRENCH:
        paths[split] = tuple(str(tmp_path / f"{split}.{language}") for language in ("fr", "en"))
        for path, lines in zip(paths[split], (FRENCH[split], ENGLISH[split]), strict=True):
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
    return paths


def file_data(corpus, **settings):
    return FileData(
        **corpus,
        **settings,
        max_length=37,
        vocabulary_size=61,
        tokenizer=partial(SentencePiece, vocabulary_size=61),
        batching=partial(Buckets, boundaries=(11, 23), max_length=37),
    )


def test_the_files_become_batches(corpus):
    data = file_data(corpus).prepare()
    words = [" ".join(line.split()) for line in FRENCH["train"]]
    assert data.text("train") == (words, [word.replace("le mot", "the word") for word in words])
    assert data.text("validation") == (["le mot un", "le mot deux"], ["the word un", "the word deux"])
    assert data.sizes() == {"train": 41, "validation": 2, "test": 2}
    seen = []
    for step in range(data.plan(3, 5).steps_per_epoch):
        batch = data.batch_at(3, step, 5)
        sides = (data.tokenizer.decode(batch[side]) for side in ("source", "target"))
        seen += [pair for pair in zip(*sides, strict=True) if pair != ("", "")]
    assert sorted(seen) == sorted(zip(*data.text("train"), strict=True))
    assert file_data(corpus, train_examples=7).prepare().sizes()["train"] == 7
    assert data.describe() == f"{corpus['train'][0]} and {corpus['train'][1]} · 41 pairs · {data.tokenizer.size} pieces"


def test_characters_of_pairs_end_with_the_end_of_sentence(corpus):
    """A short text keeps its last character and a truncated one ends like every other; so do a prompt and --files."""
    data = FileData(
        **corpus, max_length=11, vocabulary_size=61, tokenizer=partial(Characters, vocabulary_size=61),
        batching=partial(Buckets, boundaries=(), max_length=11),
    ).prepare()  # fmt: skip
    assert data._prepared.tokens["test"][0].lengths.tolist() == [len(line) + 1 for line in FRENCH["test"]]
    ((_, batch),) = data.evaluation_batches("test", 2)
    assert data.tokenizer.decode(batch["source"]) == ["le mot tro", "le mot qua"]
    assert batch["source"][:, -1].tolist() == [EOS] * 2
    assert data.read(["le", ""]) == [[*data.vocabulary.encode(["le"])[0], EOS], [EOS]]
    assert data.tokenizer.decode([[*data.read(["le"])[0], *data.read(["mot"])[0]]]) == ["le"]
    given = GivenFiles(data, *corpus["test"], Path("run"))
    assert all(ids[-1] == EOS for side in given._prepared.tokens["test"] for ids in side)
    assert data.dropped == sum(len(" ".join(line.split())) > 10 for line in ENGLISH["train"])


def test_what_was_prepared_is_found_again_until_a_file_changes(corpus, monkeypatch):
    first = file_data(corpus).prepare()
    with monkeypatch.context() as patch:
        patch.setattr(Files, "text", lambda *_: pytest.fail("read the text"))
        assert file_data(corpus).prepare().fingerprint == first.fingerprint
    for path in corpus["test"]:
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n")
    assert file_data(corpus).prepare().fingerprint == first.fingerprint  # an empty pair does not change the content
    with open(corpus["test"][1], "w", encoding="utf-8") as file:
        file.write("the word sept\nthe word huit\n\n")
    changed = file_data(corpus).prepare()
    assert changed.fingerprint != first.fingerprint
    assert changed.tokenizer.fingerprint == first.tokenizer.fingerprint


def test_other_line_ends_and_a_byte_order_mark_are_no_text(corpus):
    plain = file_data(corpus).prepare().fingerprint
    for split in FRENCH:
        for path in corpus[split]:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8-sig", newline="\r\n") as file:
                file.write(text.removesuffix("\n"))
    assert file_data(corpus).prepare().fingerprint == plain


def test_compressed_files_are_the_same_pairs(corpus):
    """gzip for one or both sides of a split gives the same content, fingerprint, and digests in a run."""
    plain = file_data(corpus).prepare()
    digests = [sha256 for _, sha256 in plain._choice.contents("train")]
    for split, sides in (("train", (0, 1)), ("test", (1,))):
        paths = list(corpus[split])
        for side in sides:
            with open(paths[side], "rb") as file, gzip.open(f"{paths[side]}.gz", "wb") as packed:
                packed.write(file.read())
            os.remove(paths[side])
            paths[side] += ".gz"
        corpus[split] = tuple(paths)
    packed = file_data(corpus).prepare()
    assert packed.fingerprint == plain.fingerprint and packed.text("test")[0] == FRENCH["test"]
    assert [sha256 for _, sha256 in packed._choice.contents("train")] == digests
    with open(corpus["train"][0], "r+b") as file:
        file.truncate(30)
    with pytest.raises(ConfigError, match=r"^config\.data\.train: .*\.fr\.gz: damaged gzip file"):
        file_data(corpus).prepare()


def wrong(corpus, split, side, content):
    with open(corpus[split][side], "wb") as file:
        file.write(content)


MISTAKES = {
    "unequal": (
        ("train", 1, b"one\ntwo\n"),
        "config.data.train: {fr} has 41 lines and {en} has 2 lines; line i of one has to translate line i of the other",
    ),
    "empty": (("test", 0, b"\n\n"), "config.data.test: {fr} and {en} have no line that has text in both"),
    "not UTF-8": (
        ("validation", 0, b"un\ndeux\nd\xe9j\xe0\n"),
        "config.data.validation: {fr} is not UTF-8 text: byte 0xe9 in line 3",
    ),
}


@pytest.mark.parametrize("case", MISTAKES, ids=[name.replace(" ", "-") for name in MISTAKES])
def test_a_wrong_file_is_one_line(corpus, case):
    (split, side, content), line = MISTAKES[case]
    wrong(corpus, split, side, content)
    with pytest.raises(ConfigError) as caught:
        file_data(corpus).prepare()
    assert str(caught.value) == line.format(fr=corpus[split][0], en=corpus[split][1])


def test_empty_files_have_no_pair(corpus):
    for side in (0, 1):
        wrong(corpus, "validation", side, b"")
    with pytest.raises(ConfigError, match="^config.data.validation: .* have no line that has text in both$"):
        file_data(corpus).prepare()


CONFIG = "--config=configs/translation/files.py:cpu"


def test_a_missing_file_is_one_line_before_anything_starts(corpus, tmp_path, capsys, monkeypatch, root):
    """A command reports the key, the path and the nearest existing file, and writes nothing."""
    monkeypatch.chdir(root)
    paths = {split: ",".join(pair) for split, pair in corpus.items()}
    paths["validation"] = paths["validation"].replace("validation.en", "validaton.en")
    words = [f"--config.data.{split}={pair}" for split, pair in paths.items()]
    assert main(["train", CONFIG, f"--workdir={tmp_path / 'run'}", *words]) == 2
    path = f"{tmp_path / 'validaton.en'}; did you mean {tmp_path / 'validation.en'}?"
    assert capsys.readouterr().err == f"error: config.data.validation: no such file: {path}\n"
    assert not (tmp_path / "run").exists()
    assert main(["train", CONFIG, f"--workdir={tmp_path / 'run'}", "--config.data.train=one"]) == 2
    assert capsys.readouterr().err.startswith("error: config.data.train: expected a tuple of 2: a string and a string")


def test_a_file_that_is_gone_when_it_is_read(corpus):
    data = file_data(corpus).prepare()
    os.remove(corpus["test"][0])
    with pytest.raises(ConfigError, match="^config.data.test: no such file: "):
        data.text("test")


def test_a_folder_is_no_given_file(corpus, tmp_path):
    data = file_data(corpus).prepare()
    (tmp_path / "given.fr").write_text("le mot\n")
    with pytest.raises(ConfigError, match=f"^--files: {tmp_path}: this is a folder; give a text file$"):
        GivenFiles(data, str(tmp_path / "given.fr"), str(tmp_path), tmp_path)


def test_all_pairs_of_given_files_are_read(corpus, tmp_path):
    """Long pairs are truncated, and pairs with an empty side are left out. Both are counted, for any split."""
    data = file_data(corpus).prepare()
    long, files = " ".join(["le mot"] * 40), [str(tmp_path / name) for name in ("given.fr", "given.en")]
    for path, lines in zip(files, (["le mot un", long, ""], ["the word un", "the word", "the word"]), strict=True):
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = GivenFiles(data, *files, tmp_path)
    for split in ("train", "test"):
        ids = np.concatenate([ids for ids, _ in given.evaluation_batches(split, 2, examples=1)])
        assert sorted(ids[ids >= 0]) == [0, 1]
    named = " and ".join(files)
    assert given.omitted() == {named: {"empty source": 1}} and given.shortened() == {named: 1}

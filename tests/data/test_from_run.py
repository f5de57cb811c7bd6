"""The vocabulary of another run: the same ids, nothing trained or tokenised twice, one line for impossible cases."""

import json
import shutil
from functools import partial

import pytest

from attention_research.config import ConfigError
from attention_research.data.batching import Buckets
from attention_research.data.files import FileData
from attention_research.data.from_run import FromRun, recorded
from attention_research.data.tokenizer import SentencePiece
from attention_research.data.words import Words

TEXT = ["a rose is a rose", "is it a thorn"]
SECTIONS = {
    "words": {"kind": "words", "minimum_count": 1, "vocabulary_size": 13},
    "sentencepiece": {"kind": "sentencepiece", "model_type": "bpe", "vocabulary_size": 29},
}


def run_of(folder, section, tokenizer):
    """The folder of a run with this tokenizer, as training leaves it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"resolved": {"data": {"tokenizer": section}}}))
    (folder / "environment.json").write_text(json.dumps({"python": "3", **recorded(tokenizer)}))
    return folder


@pytest.fixture
def trained(tmp_path, data_home):
    """The run of a vocabulary of words."""
    words = Words(vocabulary_size=13).fit(TEXT)
    return run_of(tmp_path / "trained", SECTIONS["words"], words), words


def from_run(folder, vocabulary_size=31):
    return FromRun(run=str(folder), vocabulary_size=vocabulary_size)


@pytest.mark.parametrize("kind", SECTIONS)
def test_tokens_are_those_of_the_run(tmp_path, data_home, kind):
    settings = {name: value for name, value in SECTIONS[kind].items() if name != "kind"}
    own = {"words": Words, "sentencepiece": SentencePiece}[kind](**settings).fit(TEXT)
    taken = from_run(run_of(tmp_path / "run", SECTIONS[kind], own)).fit(["quite another text"])
    lines = ["a thorn is", "a zebra"]
    assert taken.encode(lines) == own.encode(lines)
    assert taken.decode(own.encode(lines)) == own.decode(own.encode(lines))
    assert taken.pieces([0, 3, 4, 99]) == own.pieces([0, 3, 4, 99])
    assert (taken.size, taken.fingerprint, taken.path) == (own.size, own.fingerprint, own.path)


def test_a_run_with_a_taken_vocabulary_passes_it_on(tmp_path, trained):
    folder, words = trained
    section = {"kind": "from_run", "run": str(folder), "vocabulary_size": 31}
    second = run_of(tmp_path / "second", section, from_run(folder))
    assert from_run(second).encode(TEXT) == words.encode(TEXT)


def test_other_text_is_tokenised_once_if_the_run_moves(tmp_path, trained):
    folder, words = trained
    paths = {}
    for split in ("train", "validation", "test"):
        paths[split] = (str(tmp_path / f"{split}.a"), str(tmp_path / f"{split}.b"))
        for path in paths[split]:
            with open(path, "w") as file:
                file.write("a thorn\nis it a zebra\n")

    def data(run):
        tokenizer = partial(FromRun, run=str(run), vocabulary_size=31)
        batching = partial(Buckets, boundaries=(), max_length=7)
        return FileData(**paths, max_length=7, vocabulary_size=31, tokenizer=tokenizer, batching=batching)

    said = []
    first = data(folder).prepare(said.append)
    (batch,) = [batch for _, batch in first.evaluation_batches("test", 2)]
    assert batch["source"][:, :5].tolist() == [
        [*ids, *[0] * (5 - len(ids))] for ids in words.encode(["a thorn", "is it a zebra"])
    ]
    assert said == ["tokenising 6 pairs"]
    moved = tmp_path / "moved"
    shutil.move(folder, moved)
    again = data(moved).prepare(said.append)
    assert again.fingerprint == first.fingerprint and len(said) == 1


def test_an_unusable_run_is_one_line(tmp_path, trained):
    folder, words = trained
    written = json.loads((folder / "environment.json").read_text())

    def refused(line, run=folder, **environment):
        (folder / "environment.json").write_text(json.dumps(environment or written))
        with pytest.raises(ConfigError, match=line):
            from_run(run, 31 if "size" not in line else 5).fit(TEXT).encode(TEXT)

    refused(
        rf"^config\.data\.tokenizer\.run={tmp_path}/nowhere: no run there \(config.json is missing\)",
        tmp_path / "nowhere",
    )
    refused("environment.json of .* names no vocabulary; rerun train there", python="3")
    other = {"file": words.path.name, "fingerprint": "f" * 20}
    refused(f"the vocabulary is {words.fingerprint} and was ffff.* when .* was trained", vocabulary=other)
    refused(f"the vocabulary of .* has {words.size} tokens, more than vocabulary_size, 5")
    without = run_of(tmp_path / "without", None, words)
    refused("the data of .* have no tokenizer", without)
    words.path.unlink()
    refused("the vocabulary of .* is gone; evaluate there makes it anew")


def test_tokenizers_without_a_file_are_not_recorded():
    assert recorded(None) == {} == recorded(object())

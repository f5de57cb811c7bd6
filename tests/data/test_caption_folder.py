"""A folder of pictures with captions as data: reading, splits, a captioner trained on it, one line for every error."""

import json
import shutil
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from PIL import Image

from attention_research.cli import main
from attention_research.data.by_hash import split_of
from attention_research.data.caption_folder import CaptionFolder
from attention_research.data.words import Words
from attention_research.errors import ConfigError
from attention_research.training import keeping

COLOURS = {"red": (200, 20, 20), "green": (20, 180, 20), "blue": (20, 20, 220)}


def captions_of(number):
    name = list(COLOURS)[number % 3]
    return [f"A {name} picture.", f"number {number}, {name}"][: 1 + number % 2]


def write(folder, number=61):
    """Writes `number` pictures of one colour each, and captions.tsv."""
    folder.mkdir()
    lines = []
    for i in range(number):
        Image.new("RGB", (20 + i % 5, 24), list(COLOURS.values())[i % 3]).save(folder / f"p{i}.png")
        lines += [f"p{i}.png\t{caption}\n" for caption in captions_of(i)]
    (folder / "captions.tsv").write_text("".join(lines))
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    return write(tmp_path / "photos")


def data(folder, **settings):
    tokenizer = partial(Words, vocabulary_size=97)
    sizes = {"side": 16, "channels": 3, "max_length": 7, "vocabulary_size": 97, "tokenizer": tokenizer}
    return CaptionFolder(folder=str(folder), **{**sizes, **settings})


def test_pictures_and_captions_become_batches(folder):
    read = data(folder).prepare()
    splits = [split_of(f"p{i}.png") for i in range(61)]
    for split in ("train", "validation", "test"):
        numbers = [i for i, own in enumerate(splits) if own == split]
        assert numbers, split
        plain = [[text.lower().replace(".", " .").replace(",", " ,") for text in captions_of(i)] for i in numbers]
        assert read.references(split) == plain
        seen = 0
        for ids, batch in read.evaluation_batches(split, 4):
            for row, id_ in enumerate(ids[ids >= 0]):
                number = numbers[id_]
                assert read.tokenizer.decode([batch["target"][row]]) == [plain[id_][0]]
                middle = np.array(list(COLOURS.values())[number % 3])
                assert (batch["image"][row, 8, 8] == middle).all()
                seen += 1
        assert seen == len(numbers)
    assert read.sizes()["train"] == sum(len(captions_of(i)) for i, own in enumerate(splits) if own == "train")


def test_a_length_that_no_caption_has_is_refused(folder):
    line = r"^max_length: no training text of .*photos has at most 2 tokens$"
    with pytest.raises(ConfigError, match=line):
        data(folder, max_length=2).prepare().batch_at(seed=0, step=0, batch_size=4)


def test_jsonl_and_several_files_are_the_same_pictures(folder):
    """All captions of a picture on one line, JSON, a header line, or a file for each split give the same data."""
    plain = data(folder).prepare()
    lines = [json.dumps({"file_name": f"p{i}.png", "captions": captions_of(i)}) for i in range(61)]
    (folder / "all.jsonl").write_text("\n".join(lines))
    (folder / "header.tsv").write_text("file_name\tcaption\n" + (folder / "captions.tsv").read_text())
    for captions in ("all.jsonl", "header.tsv", str(folder / "header.tsv")):
        assert data(folder, captions=captions).prepare().fingerprint == plain.fingerprint
    (folder / "one.tsv").write_text("p3.png\tthree\n")
    (folder / "two.tsv").write_text("p4.png\tfour\np5.png\tfive\n")
    (folder / "rest.jsonl").write_text("\n".join(line for i, line in enumerate(lines) if i not in (3, 4, 5)))
    named = data(folder, captions="rest.jsonl", validation="one.tsv", test="two.tsv").prepare()
    assert named.references("validation") == [["three"]] and named.references("test") == [["four"], ["five"]]
    assert len(named.references("train")) == 58


def test_a_picture_of_two_splits_is_refused_however_it_is_written(folder):
    for name, captions in (("one.tsv", "p3.png\tthree\n"), ("two.tsv", "p4.png\tfour\n./p3.png\tagain\n")):
        (folder / name).write_text(captions)
    line = r"^config\.data\.test: .*two\.tsv names p3\.png of config\.data\.captions; a picture belongs to one split$"
    with pytest.raises(ConfigError, match=line):
        data(folder, captions="one.tsv", test="two.tsv").prepare()
    (folder / "twice.tsv").write_text("".join(f"p{i}.png\tfirst {i}\n./p{i}.png\tsecond {i}\n" for i in range(61)))
    read = data(folder, captions="twice.tsv").prepare()
    assert {len(captions) for split in read.sizes() for captions in read.references(split)} == {2}


@pytest.mark.parametrize("number", [3, 5, 11])
def test_a_small_folder_has_every_split(tmp_path, monkeypatch, number):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    read = data(write(tmp_path / "few", number)).prepare()
    sizes = [len(read.references(split)) for split in ("train", "validation", "test")]
    assert sum(sizes) == number and min(sizes) >= 1


def test_the_test_split_works_without_training_pictures(folder, tmp_path):
    """For a run that has started, the test split is available whatever happens to the others.

    Changed pictures are refused.
    """
    read, run = data(folder).prepare(), tmp_path / "run"
    (run / "checkpoints/1").mkdir(parents=True)
    config = SimpleNamespace(resolved={"data": {"tokenizer": {"kind": "words", "vocabulary_size": 97}}})
    keeping.keep(read, run, config, lambda line: None)
    expected, counts = [batch for _, batch in read.evaluation_batches("test", 4)], read.target_counts()
    for i in range(61):
        if split_of(f"p{i}.png") != "test":
            (folder / f"p{i}.png").unlink()
    shutil.rmtree(tmp_path / "data")
    again = data(folder.parent / "nowhere")
    keeping.ready(again, run, lambda line: None)
    jax.tree.map(np.testing.assert_array_equal, [batch for _, batch in again.evaluation_batches("test", 4)], expected)
    np.testing.assert_array_equal(again.target_counts(), counts)
    picture = next(folder / f"p{i}.png" for i in range(61) if split_of(f"p{i}.png") == "test")
    Image.new("RGB", (9, 9)).save(picture)
    later = data(folder)
    keeping.ready(later, run, lambda line: None)
    with pytest.raises(ConfigError, match=rf"^config\.data\.test: {picture} has changed since the run in {run} began"):
        next(later.evaluation_batches("test", 4))
    with pytest.raises(ConfigError, match=r"^config\.data\.captions: .* names p\d+\.png, which is not in"):
        later.images("train", np.zeros(1, int))


MISTAKES = {
    "no tab": (b"p0.png a caption\n", "captions.tsv: line 1 has no tab: expected the picture's file, a tab, the cap"),
    "no such picture": (b"p0.png\ta\np1.pmg\tb\np2.png\tc\n",
                        "captions.tsv names p1.pmg, which is not in {folder}; did you mean p1.png?"),
    "Latin 1": (b"p0.png\tcaf\xe9\n", "captions.tsv is not UTF-8 text: byte 0xe9 in line 1"),
    "empty": (b"", "captions.tsv: no picture is left for train"),
    "one picture": (b"p0.png\ta\n", "captions.tsv: no picture is left for "),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_wrong_file_is_one_line(folder, case):
    content, line = MISTAKES[case]
    (folder / "captions.tsv").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        data(folder).prepare()
    assert f"config.data.captions: {folder}/{line.format(folder=folder)}" in str(caught.value)


def test_a_picture_that_cannot_be_read_is_one_line(folder):
    name = next(f"p{i}.png" for i in range(61) if split_of(f"p{i}.png") == "train")
    (folder / name).write_bytes((folder / name).read_bytes()[:40])
    with pytest.raises(
        ConfigError, match=f"^config.data.folder: {folder / name}: not a picture that can be read; give"
    ):
        data(folder).prepare()


def test_wrong_json_is_one_line(folder):
    for line in (
        "{",
        "[1]",
        '{"file_name": "p0.png"}',
        '{"file_name": 1, "text": "a"}',
        '{"file_name": "a", "text": 1}',
    ):
        (folder / "all.jsonl").write_text(f'{{"file_name": "p0.png", "text": "a"}}\n{line}\n')
        with pytest.raises(ConfigError, match=r"^config\.data\.captions: .*all\.jsonl: line 2: expected"):
            data(folder, captions="all.jsonl").prepare()
    whole, half = "\\ud83d\\ude00", "\\ud83d"  # in JSON, the two surrogates of a character, and the first of them
    lines = [f'{{"file_name": "p{number}.png", "text": "a {whole}"}}' for number in range(9)]
    (folder / "all.jsonl").write_text("\n".join(lines))
    assert data(folder, captions="all.jsonl").prepare().references("train")[0] == ["a \U0001f600"]
    (folder / "all.jsonl").write_text("\n".join([*lines, lines[0].replace(whole, half)]))
    with pytest.raises(ConfigError, match=r"all\.jsonl: line 10 has half of a character, \\ud83d; write all of it$"):
        data(folder, captions="all.jsonl").prepare()


@pytest.mark.slow
def test_a_captioner_on_a_folder(folder, tmp_path, monkeypatch, capsys, root):
    """With commands.

    Afterwards without the training pictures, and from another folder. Changed pictures are refused.
    """
    monkeypatch.chdir(tmp_path)
    with (folder / "captions.tsv").open("a") as file:
        file.write("p0.png\t \n")
    Image.new("L", (9, 9)).save(folder / "nobody.png")
    train = ["train", f"--config={root}/configs/images/caption_folder.py:smoke", "--workdir=run"]
    assert main([*train, "--config.data.folder=fotos"]) == 2
    assert capsys.readouterr().err == "error: config.data.folder: no such folder: fotos; did you mean photos?\n"
    assert main([*train, "--config.data.folder=photos"]) == 0
    said = capsys.readouterr().err
    assert "data  2 examples of the folder left out: 1 captions without text, 1 pictures without a caption" in said
    assert main(["evaluate", "--workdir=run"]) == 0
    before = json.loads((tmp_path / "run/evaluation.json").read_text())
    for i in range(61):
        if split_of(f"p{i}.png") != "test":
            (folder / f"p{i}.png").unlink()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main(["evaluate", "--workdir=../run"]) == 0
    after = json.loads((tmp_path / "run/evaluation.json").read_text())
    assert {k: v for k, v in after.items() if k != "seconds"} == {k: v for k, v in before.items() if k != "seconds"}
    picture = next(folder / f"p{i}.png" for i in range(61) if split_of(f"p{i}.png") == "test")
    assert main(["generate", "--workdir=../run", f"--input={picture}"]) == 0
    Image.new("RGB", (9, 9)).save(picture)
    assert main(["evaluate", "--workdir=../run"]) == 2
    assert f"error: config.data.test: {picture} has changed since the run in" in capsys.readouterr().err

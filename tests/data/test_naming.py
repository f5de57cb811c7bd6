"""Functions from made-up modules, counted by hand; ids of sub-tokens inside and outside the vocabulary."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.data import naming, naming_source
from attention_research.data.batching import Buckets
from attention_research.data.naming import NamingData, SubTokens
from attention_research.data.naming_source import functions_of, read, split_of, sub_tokens
from attention_research.models.copying.extended import extended_ids
from attention_research.tokens import EOS, UNKNOWN

MODULE = '''
import os

class Café:
    é = "é"; x = 3

    def __init__(self): self.useBrowserCache = 1  # a comment

    def setUseBrowserCache(self, useBrowserCache):
        """Sets it."""
        self.useBrowserCache = useBrowserCache

    @property
    async def size(self):
        return await super().size + len(self.é, 2.5, f"x{self}")

def outer(n):
    @os.wrap
    def inner_HTTPServer2(): return outer(n)
    return inner_HTTPServer2

def again(self, other):
    self.useBrowserCache = useBrowserCache

def nothing():
    """Only this."""

def _(): return 1
'''


def test_a_name_is_split_where_the_case_changes():
    assert sub_tokens("getHTTPResponseCode_v2") == ["get", "http", "response", "code", "v", "2"]
    assert sub_tokens("__slots__") == ["slots"] and sub_tokens("étéÀ_Z") == ["étéà", "z"]
    assert sub_tokens("_") == []


def test_bodies_are_sub_tokens_without_docstring_comments_and_their_own_name():
    found = {name: " ".join(body) for _, name, body in functions_of(MODULE)}
    assert found["setUseBrowserCache"] == "self . use browser cache = use browser cache"
    strings = "<string>"
    assert found["size"].startswith("return await super ( ) . <name> + len ( self . é , <number> , " + strings)
    assert found["outer"] == "@ os . wrap def inner http server 2 ( ) : return <name> ( n ) return inner http server 2"
    assert found["inner_HTTPServer2"] == "return outer ( n )"
    assert found["nothing"] == "" and found["__init__"] == "self . use browser cache = <number>"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder of modules, one for each split, and a test package."""
    folder = tmp_path_factory.mktemp("library")
    names = [f"module{number}" for number in range(60)]
    by_split = {split: next(name for name in names if split_of(name) == split) for split in ("validation", "test")}
    (folder / "json").mkdir()
    (folder / "json/main.py").write_text(MODULE)
    assert split_of("json") == "train"
    for split, name in by_split.items():
        body = f"def get_{split}_zebra(x):\n    return x.{split}_zebra.okapi.okapi\n"
        (folder / f"{name}.py").write_text(body + "def other(): return x.useBrowserCache\n" * (split == "test"))
    (folder / "test").mkdir()
    (folder / "test/test_json.py").write_text("def f(): return 1\n")
    (folder / "broken.py").write_text("def f(:\n")
    return folder


def test_left_out_functions_are_counted(library):
    found, left = read(library)
    assert {split: [one.name for one in of] for split, of in found.items()} == {
        "train": ["set use browser cache", "size", "outer", "inner http server 2"],
        "validation": ["get validation zebra"],
        "test": ["get test zebra", "other"],
    }
    assert left == {
        "names with two underscores on both sides": 1, "bodies that were there before": 1, "empty bodies": 1,
        "names without a letter": 1, "files that do not parse": 1,
    }  # fmt: skip
    assert found["train"][0].place == "json/main.py:9"


def test_every_split_has_modules_of_its_own():
    """A fifth of the modules is for test, a twentieth for validation."""
    splits = [split_of(f"module{number}") for number in range(2000)]
    assert 340 < splits.count("test") < 460 and 60 < splits.count("validation") < 140


@pytest.fixture
def data(library, tmp_path, monkeypatch):
    """make(**settings) -> prepared NamingData of the made-up library."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "home"))
    monkeypatch.setattr(naming_source, "library", lambda: library)
    naming._read.cache_clear()
    batching = partial(Buckets, boundaries=(16,), max_length=41)
    return lambda **settings: NamingData(
        **{"max_length": 41, "vocabulary_size": 13} | settings, batching=batching
    ).prepare()


def test_ids_outside_the_vocabulary_identify_equal_words(data):
    made = data()
    assert made.sizes() == {"train": 4, "validation": 1, "test": 2} and made.tokenizer.size == 13
    ((ids, batch),) = made.evaluation_batches("test", 2)
    row = ids.tolist().index(0)  # x . test zebra . okapi . okapi
    source, target = batch["source"][row], batch["target"][row]
    words = "return x . test zebra . okapi . okapi".split()
    assert made.tokenizer.pieces(source[:10]) == [*words, "<end>"] and source[9] == EOS
    outside = [word for word, token in zip(words, source[:9], strict=True) if token >= 13 + 41]
    assert outside == ["x", "test", "zebra", "okapi", "okapi"] and source[6] == source[8]
    assert made.tokenizer.pieces(target[:3]) == ["get", "test", "zebra"]
    assert target[1:3].tolist() == source[3:5].tolist()
    assert batch["target"].shape == (2, 8) and made.train_shapes(3)[0] == {"source": (3, 16), "target": (3, 8)}
    assert made.batch_at(0, 0, 3)["target"].shape == (3, 8)


def test_a_copied_position_is_read_with_its_source(data):
    made = data()
    ((ids, batch),) = made.evaluation_batches("test", 2)
    row = ids.tolist().index(0)
    entries = np.asarray(extended_ids(jnp.asarray(batch["source"]), 13))[row]
    name = [int(entries[6]), int(entries[4]), EOS, 99]
    assert made.tokenizer.decode([name], [batch["source"][row]]) == ["okapi zebra"]
    assert made.tokenizer.decode([name]) == ["<unknown> <unknown>"]
    assert made.tokenizer.decode([[UNKNOWN, EOS]]) == ["<unknown>"]


def test_a_word_without_an_id_is_copied_from_new_text(data):
    made, text = data(), "return yak . test yak gnu"  # the library's functions contain neither yak nor gnu
    (source,) = made.read([text])
    seen = {*made.tokenizer.encode(made.text("train")[0] + made.text("test")[0])[0], *source[:1], *source[2:4]}
    assert source[1] == source[4] != source[5] and not {source[1], source[5]} & seen
    assert made.tokenizer.pieces(source[1:2]) == ["<unknown>"]
    entries = np.asarray(extended_ids(jnp.asarray([source]), 13))[0]
    get = made.tokenizer.encode(["get"])[0][0]
    assert made.written([[get, int(entries[4]), int(entries[5]), EOS]], [text]) == ["get yak gnu"]
    (plain,) = data(extended=False).read([text])
    assert plain[1] == plain[4] == plain[5] == UNKNOWN and plain[0] == source[0]


def test_a_plain_model_sees_the_unknown_word(data):
    extended, plain = data(), data(extended=False)
    pairs = zip(extended.evaluation_batches("test", 2), plain.evaluation_batches("test", 2), strict=True)
    for (_, ours), (_, theirs) in pairs:
        for side in ("source", "target"):
            np.testing.assert_array_equal(np.where(ours[side] < 13, ours[side], UNKNOWN), theirs[side])
            assert ours[side].max() >= 54 > 13 > theirs[side].max()
    assert extended.target_tokens("test").max() < 13


def test_the_vocabulary_is_of_training_and_every_word_has_an_id(data):
    made = data()
    train = " ".join(line for side in made.text("train") for line in side).split()
    counts = {word: train.count(word) for word in train}
    least = min(counts[word] for word in made.tokenizer.known)
    assert all(counts[word] <= least for word in counts if word not in made.tokenizer.known)
    for split in ("train", "validation", "test"):
        for side in made.text(split):
            assert made.tokenizer.decode(made.tokenizer.encode(side)) == side
    again = SubTokens(vocabulary_size=13, max_length=41, others=list).load(made.tokenizer.path)
    assert again.encode(["zebra return"]) == made.tokenizer.encode(["zebra return"])


def test_the_fingerprint_follows_the_library(data, library):
    before = data().fingerprint
    assert data().fingerprint == before
    (library / "newer.py").write_text("def newest(): return newer\n")
    try:
        assert data().fingerprint != before
    finally:
        (library / "newer.py").unlink()


@pytest.mark.slow
def test_the_standard_library_of_this_python():
    """Thousands of functions, including known ones. Bodies do not contain the names of their functions."""
    found, left = read(naming_source.library())
    places = {one.place.split(":")[0]: one for one in found["train"]}
    assert len(found["train"]) > 5000 and min(map(len, found.values())) > 300 and left["empty bodies"] > 10
    assert "email/header.py" in places and not any(place.startswith("test/") for place in places)
    assert all(1 <= len(one.name.split()) <= 7 for of in found.values() for one in of)
    assert all(one.body for of in found.values() for one in of)

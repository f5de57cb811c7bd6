"""The pronouncing dictionary: lines by hand, a hand-made package through the builder, the real counts."""

import collections
import hashlib
import itertools
import zipfile

import pytest

from attention_research.config import ConfigError
from attention_research.data import names, pronouncing_dictionary, pronunciation, sources
from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import Package, fetch

LINES = """'bout B AW1 T
accuse AH0 K Y UW1 Z
ad-lib AE1 D L IH1 B
a.m. EY2 EH1 M
read R EH1 D
read(2) R IY1 D # present tense
record R AH0 K AO1 R D
record(2) R EH1 K ER0 D
record(3) R IH0 K AO1 R D
use Y UW1 Z
use(2) Y UW0 Z # the same without stress
aalto AA1 L T OW2 # name, finnish"""
WORDS = ["".join(letters) for letters in itertools.product("bdf", "aeio", "glmn", "st")]


COUNTS = {"train": 120_213, "validation": 6_675, "test": 6_779}


def test_lines_by_hand():
    found = list(pronouncing_dictionary.entries(LINES.splitlines()))
    assert len(found) == 12 and found[0] == ("'bout", "B AW1 T") and found[11] == ("aalto", "AA1 L T OW2")
    assert [phonemes for word, phonemes in found if word == "read"] == ["R EH1 D", "R IY1 D"]
    with pytest.raises(ValueError, match="no entry"):
        list(pronouncing_dictionary.entries(["<html>"]))


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        *(("accuse", True), ("'bout", True), ("dogs'", True)),
        *(("ad-lib", False), ("a.m.", False), ("'", False), ("b2b", False)),
    ],
)
def test_which_words_are_kept(word, kept):
    assert pronouncing_dictionary.keep(word) is kept


@pytest.fixture
def hand_made(data_home, tmp_path, monkeypatch):
    """The lines and 96 further words as a package, already downloaded."""
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        more = [f"{word} W ER1 D\n{word}(2) W AO0 D" for word in WORDS]
        zipped.writestr(pronouncing_dictionary.MEMBER, "\n".join([LINES, *more]) + "\n")
    package = Package("handmade", "1", hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size)
    monkeypatch.setattr(pronunciation, "PACKAGE", package)
    wheel.rename(package.path)
    return package.path


def examples(name):
    """(split, letters, phonemes) of every example of a set."""
    splits = ("train", "validation", "test")
    return sorted((s, one["letters"], one["phonemes"]) for s in splits for one in sources.open_split(name, s))


def test_a_hand_made_package_through_the_builder(hand_made):
    """Letters are separated and stress is removed. Equal results count once. The word's MD5 determines its split."""
    reports = []
    sources.prepare_dataset("pronunciation/en", reports.append)
    said = {"'bout": ["B AW T"], "accuse": ["AH K Y UW Z"], "read": ["R EH D", "R IY D"], "use": ["Y UW Z"],
            "record": ["R AH K AO R D", "R EH K ER D", "R IH K AO R D"], "aalto": ["AA L T OW"]}  # fmt: skip
    said |= {word: ["W ER D", "W AO D"] for word in WORDS}
    expected = []
    for word, pronunciations in said.items():
        share = int(hashlib.md5(word.encode()).hexdigest(), 16) % 20
        split = "test" if share == 0 else "validation" if share == 1 else "train"
        expected += [(split, " ".join(word), phonemes) for phonemes in pronunciations]
    assert examples("pronunciation/en") == sorted(expected)
    assert {split for split, *_ in expected} == {"train", "validation", "test"}
    assert sources.languages("pronunciation/en") == ("letters", "phonemes")
    assert reports[0] == "building pronunciation/en" and pronouncing_dictionary.excluded(hand_made) == 2
    sources.prepare_dataset("pronunciation/en_stress", reports.append)
    stressed = [phonemes for _, letters, phonemes in examples("pronunciation/en_stress") if letters == "u s e"]
    assert stressed == ["Y UW0 Z", "Y UW1 Z"]


def test_its_names_are_known_and_a_wrong_one_is_one_line():
    assert {"pronunciation/en", "pronunciation/en_stress", "pronunciation/en_sphinx"} <= set(names.dataset_names())
    line = r"^data.name: no such data set: 'pronunciation/em'; did you mean pronunciation/en\?$"
    with pytest.raises(ConfigError, match=line):
        names.check_name("pronunciation/em")


def test_the_split_by_number_keeps_every_line(hand_made):
    """The word's number in the dictionary, from 0, modulo 20: 17 and 18 are test, 19 validation."""
    sources.prepare_dataset("pronunciation/en_sphinx", lambda line: None)
    words = ["'bout", "accuse", "ad-lib", "a.m.", "read", "record", "use", "aalto", *WORDS]
    found = examples("pronunciation/en_sphinx")
    assert len(found) == len(LINES.splitlines()) + 2 * len(WORDS)
    assert [one for one in found if one[1] == "u s e"] == [("train", "u s e", "Y UW Z")] * 2
    held_out = {"test": [words[n] for n in (17, 18, 37, 38, 57, 58, 77, 78, 97, 98)],
                "validation": [words[n] for n in (19, 39, 59, 79, 99)]}  # fmt: skip
    for split, expected in held_out.items():
        assert {letters.replace(" ", "") for one, letters, _ in found if one == split} == set(expected)


@pytest.mark.slow
@pytest.mark.data
def test_the_real_package():
    """Checks the counts, that no word is in two splits, and the 39 phonemes and 27 letters."""
    archive = fetch(pronouncing_dictionary.PACKAGE)
    entries = list(pronouncing_dictionary.read_entries(archive))
    splits = collections.Counter(split_of(word) for word, _ in entries)
    assert pronouncing_dictionary.excluded(archive) == 1_193 and splits == COUNTS
    assert len({phoneme for _, phonemes in entries for phoneme in phonemes.split()}) == 39
    assert len({letter for word, _ in entries for letter in word}) == 27
    lines = list(pronouncing_dictionary.by_number(archive))
    assert collections.Counter(split for split, *_ in lines) == {"train": 114_883, "validation": 6_771, "test": 13_512}
    words = collections.Counter(split for split, _ in {(split, word) for split, word, _ in lines})
    assert words == {"train": 107_146, "validation": 6_302, "test": 12_604}
    assert len({word for word, _ in entries}) == 124_926 and len(set(entries)) == len(entries)

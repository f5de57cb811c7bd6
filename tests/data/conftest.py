"""A private data folder for each test, a small made-up translation set, and the real Bible pairs (fetched once)."""

import random
from functools import partial

import pytest

from attention_research.data.batching import Buckets, Packed
from attention_research.data.pairs import PairData
from attention_research.data.tokenizer import SentencePiece

SIZES = {"train": 211, "validation": 23, "test": 29}


@pytest.fixture
def data_home(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


def made_up_text() -> dict[str, list[dict[str, bytes]]]:
    """split -> pairs of 1 to 30 words. Each split has a letter that no other split has."""
    chance = random.Random(7)
    own = {"train": "t", "validation": "v", "test": "ж"}
    word = {
        split: lambda letters, split=split: "".join(chance.choices(letters + own[split], k=chance.randint(1, 5)))
        for split in SIZES
    }
    text = {}
    for split, size in SIZES.items():
        counts = [chance.randint(1, 30) for _ in range(size)]
        text[split] = [
            {
                "fr": " ".join(word[split]("aeiou") for _ in range(count)).encode(),
                "en": " ".join(word[split]("bcdfg") for _ in range(max(1, count + chance.randint(-3, 3)))).encode(),
            }
            for count in counts
        ]
    return text


@pytest.fixture
def made_up(data_home):
    """The made-up text in place of wmt14_translate/fr-en, as TFDS's own mock provides it."""
    import tensorflow_datasets as tfds

    text = made_up_text()

    def as_data_source(self, split, **options):
        return text[split]

    with tfds.testing.mock_data(as_data_source_fn=as_data_source):
        yield text


def _pair_data(name="wmt14_translate/fr-en", max_length=61, pieces=97, packed=False, **settings) -> PairData:
    """`PairData` as built from a config."""
    batching = Packed if packed else partial(Buckets, boundaries=(11, 23, 37))
    return PairData(
        **{"name": name, "source_language": "fr", "target_language": "en"} | settings,
        max_length=max_length,
        vocabulary_size=pieces,
        tokenizer=partial(SentencePiece, vocabulary_size=pieces),
        batching=partial(batching, max_length=max_length),
    )


@pytest.fixture
def pair_data():
    """Builds `PairData`: pair_data(name, max_length, pieces, packed, ...)."""
    return _pair_data


@pytest.fixture(scope="session")
def bible_data():
    """The real French-English Bible pairs with 8,000 pieces, in the user's own data folder."""
    return _pair_data("bible_translate/fr-en", max_length=64, pieces=8000).prepare()

"""Tasks as text to text: prefixes, words for classes, cutting. A batch is a function of (seed, step)."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import sources
from attention_research.data.batching import Buckets, Packed
from attention_research.data.text_to_text import TextToText
from attention_research.data.tokenizer import SentencePiece
from attention_research.tokens import EOS

V, LENGTH, SHORT = 97, 23, 5
WORDS = ("bad", "good", "film", "dull", "red", "cut", "old", "new")


def examples(split):
    """37 texts of 1 to 29 words with features of every kind of set, different in every split."""
    rng = np.random.default_rng([ord(letter) for letter in split])
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) + f" {split} {number}" for number in range(37)]
    parts = lambda text: {"text": text, "question": text[:19].strip(), "summary": text[-29:].strip()}
    labels = [("negative", "positive")[number % 2] for number in range(37)]
    return [parts(text) | {"label": label, "topic": "old films"} for text, label in zip(texts, labels, strict=True)]


@pytest.fixture
def made_up(data_home, monkeypatch):
    """These texts in place of every set."""
    monkeypatch.setattr(sources, "prepare", lambda name, report: None)
    monkeypatch.setattr(sources, "stamp", lambda name: None)
    monkeypatch.setattr(sources, "languages", lambda name: tuple(sorted(examples("test")[0])))
    monkeypatch.setattr(sources, "split_names", lambda name: ("train", "validation", "test"))
    monkeypatch.setattr(sources, "open_split", lambda name, split: examples(split))


def text_to_text(packed=False, max_length=LENGTH, **settings):
    """`TextToText` as built from a config."""
    batching = Packed if packed else partial(Buckets, boundaries=(7, 13))
    return TextToText(
        **{"name": "reviews/imdb", "prefix": "sentiment: ", "source": ("text",), "target": "label"} | settings,
        max_length=max_length,
        vocabulary_size=V,
        tokenizer=partial(SentencePiece, vocabulary_size=V),
        batching=partial(batching, max_length=max_length),
    )


def test_a_source_begins_with_its_task_and_a_class_is_a_word(made_up):
    found, labels = text_to_text().prepare().text("test")
    assert found == [f"sentiment: {one['text']}" for one in examples("test")]
    assert labels == [one["label"] for one in examples("test")] and set(labels) == {"negative", "positive"}


def test_several_features_follow_their_names(made_up):
    asked, _ = text_to_text(prefix="trivia ", source=("topic", "question")).text("validation")
    assert asked[11] == f"trivia topic: old films question: {examples('validation')[11]['question']}"


def test_a_generated_text_is_compared_with_the_target_of_its_id(made_up):
    """As in evaluation: ids of a batch index `text`, and decoding the targets gives the same texts."""
    data = text_to_text(max_length=61, target_length=41, target="summary").prepare()
    _, references = data.text("test")
    seen = {}
    for ids, batch in data.evaluation_batches("test", 5):
        assert batch["target"].shape[1] <= 41
        seen |= dict(zip(ids.tolist(), data.tokenizer.decode(batch["target"].tolist()), strict=True))
    seen.pop(-1)
    assert [seen[index] for index in range(len(references))] == references


def test_long_texts_are_cut_not_left_out(made_up):
    """Both sides keep their beginning and EOS. A target array is as wide as the longest target may be."""
    data = text_to_text(target_length=SHORT, target="summary").prepare()
    assert data.sizes()["train"] == 37 and data.dropped == 0
    whole = [data.tokenizer.encode(side) for side in data.text("train")]
    cut = lambda ids, longest: tuple(ids if len(ids) <= longest else [*ids[: longest - 1], EOS])
    expected = Counter((cut(source, LENGTH), cut(target, SHORT)) for source, target in zip(*whole, strict=True))
    assert any(len(ids) > LENGTH for ids in whole[0]) and any(len(ids) > SHORT for ids in whole[1])
    found, steps = Counter(), data.plan(3, 4).steps_per_epoch
    for step in range(steps):
        batch = data.batch_at(3, step, 4)
        assert {name: x.shape for name, x in batch.items()} in data.train_shapes(4)
        assert batch["target"].shape[1] == SHORT and {x.dtype for x in batch.values()} == {np.dtype(np.int32)}
        rows = zip(batch["source"], batch["target"], strict=True)
        found.update((tuple(source[source != 0]), tuple(target[target != 0])) for source, target in rows)
    found.pop(((), ()))  # 37 examples in rows of 4 leave empty rows
    assert found == expected


@pytest.mark.parametrize("packed", [False, True], ids=["buckets", "packed"])
def test_a_batch_is_a_function_of_seed_and_step(made_up, packed):
    data, again = (text_to_text(packed).prepare() for _ in range(2))
    steps = dict(zip(range(9), (batch for _, batch in data.train_batches(7, 4)), strict=False))
    for step in (8, 0, 5):
        one, batch = steps[step], again.batch_at(7, step, 4)
        assert one.keys() == batch.keys() and all(np.array_equal(one[name], batch[name]) for name in one)
        halves = [again.batch_at(7, step, 4, host, 2) for host in range(2)]
        assert all(np.array_equal(np.concatenate([half[name] for half in halves]), one[name]) for name in one)
        assert {name: x.shape for name, x in one.items()} in data.train_shapes(4)
    assert any(not np.array_equal(data.batch_at(8, step, 4)["source"], steps[step]["source"]) for step in range(3))


def test_smaller_training_sets_are_subsets(made_up):
    few, more = (set(text_to_text(train_examples=count).prepare().text("train")[0]) for count in (5, 11))
    assert len(few) == 5 and len(more) == 11 and few < more
    assert len(text_to_text(train_examples=5).prepare().text("test")[0]) == 37


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"source": ("txt",)},
            r"^data.source: reviews/imdb has no 'txt'; it has label, question, summary, text, topic$",
        ),
        ({"target": "class"}, r"^data.target: reviews/imdb has no 'class'; it has label, "),
        ({"source": ()}, r"^data.source: names no feature$"),
        ({"target_length": 24}, r"^data.target_length: 24 is more than max_length, which is 23$"),
        ({"name": "reviews/imbd"}, r"^data.name: no such data set: 'reviews/imbd'; did you mean reviews/imdb\?$"),
    ],
    ids=["source", "target", "no-source", "target-length", "name"],
)
def test_a_mistake_is_one_line(made_up, settings, line):
    with pytest.raises(ConfigError, match=line):
        text_to_text(**settings).prepare()

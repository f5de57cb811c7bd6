"""Generated reviews: reproducible, with gold words in the rated sentence and ratings that correlate as requested."""

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.generated_reviews import HELD_OUT, GeneratedReviews
from attention_research.data.review_sentences import ASPECTS, FEATURES, GRADES, NOUNS, OWN, SHARED, reviews
from attention_research.tokens import PAD, UNKNOWN


def data(**settings):
    return GeneratedReviews(**{"max_length": 61, "vocabulary_size": 167, "train_examples": 211} | settings)


def sentences(review):
    """The sentences of a review: [(aspect, words)]."""
    found, start = [], 0
    for stop in (number + 1 for number, word in enumerate(review.words) if word == "."):
        topics = set(review.topics[start:stop])
        assert len(topics) == 1
        found.append((topics.pop(), review.words[start : stop - 1]))
        start = stop
    assert start == len(review.words)
    return found


def test_a_review_has_one_sentence_per_aspect_with_words_of_its_grade():
    for review in reviews("train", 300, 0.0):
        rated = dict(one for one in sentences(review) if one[0])
        assert sorted(rated) == sorted(ASPECTS) and 2 <= len(sentences(review)) - 3 <= 4
        for aspect, words in rated.items():
            assert set(words) & set(NOUNS[aspect].split()) and not any(
                set(words) & set(f"{NOUNS[other]} {FEATURES[other]} {' '.join(OWN[other])}".split())
                for other in ASPECTS
                if other != aspect
            )
            grades = [g for word in words for g in range(GRADES) if word in f"{SHARED[g]} {OWN[aspect][g]}".split()]
            assert len(grades) == 2 and max(abs(g - review.grades[aspect]) for g in grades) <= 1
            assert sum(review.gold(aspect)) == len(words) + 1


def test_unrated_sentences_have_graded_words_too():
    others = [words for review in reviews("train", 300, 0.0) for topic, words in sentences(review) if not topic]
    graded = [words for words in others if set(words) & set(" ".join(SHARED).split())]
    assert 0.3 < len(graded) / len(others) < 0.6


@pytest.mark.parametrize("wanted", [0.0, 0.5, 0.9])
def test_grades_correlate_as_asked(wanted):
    grades = np.array([[review.grades[aspect] for aspect in ASPECTS] for review in reviews("train", 4000, wanted)])
    found = np.corrcoef(grades.T)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(found, wanted, atol=0.05)  # three standard errors of 4,000 pairs
    np.testing.assert_allclose(np.bincount(grades.ravel()) / grades.size, 1 / GRADES, atol=0.02)


def test_reviews_are_reproducible_and_splits_are_disjoint():
    assert reviews("test", 50, 0.5) == reviews("test", 70, 0.5)[:50]
    seen = {review.words for review in reviews("train", 2000, 0.0)}
    assert not seen & {review.words for split in HELD_OUT for review in reviews(split, HELD_OUT[split], 0.0)}
    assert data().fingerprint == data().fingerprint != data(correlation=0.5).fingerprint
    assert data(aspect="smell").fingerprint != data().fingerprint


def test_a_batch_holds_words_ratings_and_gold():
    one = data(aspect="smell")
    batch = one.batch_at(seed=3, step=1, batch_size=7)
    (shapes,) = one.train_shapes(7)
    assert {name: x.shape for name, x in batch.items()} == shapes
    assert {name: x.dtype for name, x in batch.items() if x.dtype != "int32"} == {"ratings": one.dtypes["ratings"]}
    by_words = {review.words[:61]: review for review in one.reviews("train")}
    for source, (rating,), gold in zip(batch["source"], batch["ratings"], batch["gold"], strict=True):
        words = tuple(one.tokenizer.pieces(source[source != PAD]))
        review = by_words[words]
        assert rating == review.grades["smell"] / 4 and not gold[len(words) :].any()
        assert gold[: len(words)].astype(bool).tolist() == list(review.gold("smell"))[: len(words)]


def test_batches_are_a_function_of_seed_and_step():
    one, steps = data(), -(-211 // 7)
    first = [one.batch_at(5, step, 7)["source"] for step in range(2 * steps)]
    assert all((x == y["source"]).all() for x, (_, y) in zip(first, data().train_batches(5, 7), strict=False))
    assert not (first[0] == data().batch_at(6, 0, 7)["source"]).all()
    for epoch in (first[:steps], first[steps:]):
        rows = np.concatenate(epoch)
        assert len({row.tobytes() for row in rows if row.any()}) == 211 and len(rows) == steps * 7
    (step, later) = next(data().train_batches(5, 7, start_step=4))
    assert step == 4 and (later["source"] == first[4]).all()
    halves = [one.batch_at(5, 2, 8, host, 2)["gold"] for host in range(2)]
    assert (np.concatenate(halves) == one.batch_at(5, 2, 8)["gold"]).all()


def test_evaluation_sees_every_review_once_and_marks_padding_rows():
    one = data()
    seen = [(ids, batch) for ids, batch in one.evaluation_batches("validation", 73)]
    ids = np.concatenate([ids for ids, _ in seen])
    assert sorted(ids[ids >= 0]) == list(range(HELD_OUT["validation"])) and len(ids) == 7 * 73
    filling = np.concatenate([batch["source"] for _, batch in seen])[ids < 0]
    assert len(filling) and not filling.any()
    some = [number for ids, _ in one.evaluation_batches("test", 16, examples=11) for number in ids if number >= 0]
    assert len(some) == 11 and some == sorted(some)
    with pytest.raises(ConfigError, match="no split 'tset'"):
        next(one.evaluation_batches("tset", 4))


def test_rare_words_are_unknown_and_long_reviews_cut():
    small = data(vocabulary_size=23, max_length=17)
    assert small.tokenizer.size == 23
    source = small.batch_at(0, 0, 5)["source"]
    assert source.shape == (5, 17) and (source == UNKNOWN).any() and source.max() < 23

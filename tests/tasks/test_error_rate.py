"""Error rates: distances by hand and by a second implementation, several references, the floor, the evaluation."""

import functools
import json
import random

import pytest

from attention_research.studies.columns import stored_floors
from attention_research.tasks import sentence_statistics
from attention_research.tasks.error_rate import ErrorRateEvaluation, edits, error_rates, nearest, token_by_token

CASES = {
    "equal": ("K AE T", "K AE T", 0),
    "substituted": ("K AE T", "K AH T", 1),
    "inserted": ("K AE T S", "K AE T", 1),
    "deleted": ("K T", "K AE T", 1),
    "nothing written": ("", "K AE T", 3),
    "nothing wanted": ("K AE T", "", 3),
    "swapped": ("AE K T", "K AE T", 2),
    "kitten": ("k i t t e n", "s i t t i n g", 3),
}


@pytest.mark.parametrize("case", CASES, ids=[name.replace(" ", "-") for name in CASES])
def test_error_rates_by_hand(case):
    hypothesis, reference, expected = CASES[case]
    assert edits(hypothesis.split(), reference.split()) == expected
    rate, whole = error_rates([hypothesis], [reference], ["x"])
    size = len(reference.split())
    assert rate == (pytest.approx(100 * expected / size) if size else float("inf"))
    assert whole == 100.0 * (expected > 0)


def recursive(first, second):
    """Levenshtein's distance by its recursive definition, on all suffixes."""

    @functools.cache
    def between(i, j):
        if i == len(first) or j == len(second):
            return len(first) - i + len(second) - j
        if first[i] == second[j]:
            return between(i + 1, j + 1)
        return 1 + min(between(i + 1, j), between(i, j + 1), between(i + 1, j + 1))

    return between(0, 0)


def test_is_the_recursive_distance():
    chance = random.Random(3)
    draw = lambda: tuple(chance.choice("abc") for _ in range(int(chance.random() * 9)))
    pairs = [(draw(), draw()) for _ in range(300)]
    assert [edits(*pair) for pair in pairs] == [recursive(*pair) for pair in pairs]
    assert len({recursive(*pair) for pair in pairs}) > 6


def test_the_rate_is_of_the_corpus_not_the_mean_of_sentences():
    """1 edit of 1 and 1 edit of 9 give 2 / 10, not (1 + 1/9) / 2."""
    rate, whole = error_rates(["b", "a a a a a a a a b"], ["a", "a a a a a a a a a"], ["x", "y"])
    assert rate == pytest.approx(20.0) and whole == 100.0


def test_a_source_is_scored_once_against_its_nearest_reference():
    """R EH D has 0 edits against R EH D and 1 against R IY D.

    Y UW Z has 1 edit against Y UW S and Y UW Z Z; the longer reference counts.
    """
    sources = ["r e a d", "u s e", "r e a d", "u s e", "a"]
    references = ["R IY D", "Y UW S", "R EH D", "Y UW Z Z", "AH"]
    hypotheses = ["R EH D", "Y UW Z", "R EH D", "Y UW Z", "AH"]
    assert nearest("Y UW Z", ["Y UW S", "Y UW Z Z"]) == (1, 4)
    rate, whole = error_rates(hypotheses, references, sources)
    assert rate == pytest.approx(100 * 1 / (3 + 4 + 1)) and whole == pytest.approx(100 / 3)
    shuffled = list(zip(hypotheses, references, sources, strict=True))[::-1]
    assert error_rates(*zip(*shuffled, strict=True)) == (rate, whole)


def test_the_floor_maps_letters_to_one_sound_or_silence():
    """c is K, a is AE, t is T, and h is silent. One word that breaks the rule changes nothing."""
    letters = ["c a t", "t a c", "h a t", "c h a t", "a", "c a", "t a h"]
    sounds = ["K AE T", "T AE K", "AE T", "K AE T", "EY", "K AE", "T AE"]
    assert token_by_token(letters, sounds) == [*sounds[:4], "AE", *sounds[5:]]
    assert token_by_token(["", "x"], ["", ""]) == ["", ""]


def test_the_evaluation_names_its_floor():
    evaluation = ErrorRateEvaluation(examples=3)
    scores = evaluation.score(["K AH T", "T AE K"], ["K AE T", "T AE K"], ["c a t", "t a c"])
    assert scores["error_rate"] == pytest.approx(100 / 6) and scores["word_error_rate"] == 50.0
    assert scores["line_error_rate"] == 50.0
    # A right word on two lines, each with one of its pronunciations, and a wrong word.
    several = evaluation.score(["A", "A", "C"], ["A", "B", "D"], ["a", "a", "c"])
    assert several["line_error_rate"] == pytest.approx(100 / 3) and several["word_error_rate"] == 50.0
    assert scores["token_by_token_error_rate"] == 0.0 and "nearest" in scores["error_rate_signature"]
    assert (evaluation.split, evaluation.batch_size, evaluation.examples) == ("test", 64, 3)
    assert evaluation.summary(scores).startswith("error rate 16.67 %, of whole sequences 50.00 % (edits:")
    ((metric, floor),) = [pair for pair in stored_floors() if pair[0].name == "error_rate"]
    assert floor.stored in scores and not metric.higher


def test_the_rates_follow_from_the_packed_statistics():
    """A source with two references counts once. Lengths differ, and some hypotheses are correct."""
    chance = random.Random(5)
    draw = lambda: " ".join(chance.choice("abc") for _ in range(int(chance.random() * 9)))
    sources = [f"s{i % 31}" for i in range(53)]
    written = {source: draw() for source in sources}
    hypotheses, references = [written[source] for source in sources], [draw() for _ in sources]
    for row in (2, 3, 5):
        hypotheses[row] = references[row]
    scores = ErrorRateEvaluation().score(hypotheses, references, sources)
    packed = json.loads(json.dumps(ErrorRateEvaluation().sentence_statistics(hypotheses, references, sources)))
    counts = sentence_statistics.counts(packed)
    assert counts.shape == (31, 3) and packed["items"] == 31
    for name, score in sentence_statistics.SCORES["error_rate"].items():
        assert score(counts.sum(0), len(counts)) == scores[name] > 0
    others = ErrorRateEvaluation().sentence_statistics([""] * 53, references, sources)
    assert (others["fixed"], others["test_set"]) == (packed["fixed"], packed["test_set"])
    assert others["own"] != packed["own"]
    nothing = sentence_statistics.of_error_rate([], [], [])
    assert sentence_statistics.counts(nothing).shape == (0, 3)

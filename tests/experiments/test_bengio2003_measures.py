"""The n-gram models of Bengio et al. 2003 against their equations in dictionaries and plain loops."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.data.tokens import TokenArray
from attention_research.experiments.bengio2003 import measures
from attention_research.experiments.bengio2003.classes import ClassModel, Exchange, exchanged
from attention_research.experiments.bengio2003.deleted_interpolation import DeletedInterpolation
from attention_research.tasks.floors.kneser_ney import KneserNey

V = 13
START = V


def text(seed, length, words=11):
    """Tokens with unequal frequencies that depend on the token before; ids from `words` on do not occur."""
    rng = np.random.default_rng(seed)
    found = [0]
    while len(found) < length:
        found.append(int(rng.integers(0, words) * rng.random() + found[-1] * (rng.random() < 0.4)) % words)
    return np.array(found)


class ByDictionaries:
    """Section 4.1 of the paper, token by token, with EM as a loop."""

    def __init__(self, train, held_out, iterations):
        self.total = len(train)
        padded = [START, START, *train]
        at = range(2, len(padded))
        self.grams = [Counter(tuple(padded[i - n + 1 : i + 1]) for i in at) for n in (1, 2, 3)]
        self.before = [Counter(tuple(padded[i - n : i]) for i in at) for n in (0, 1, 2)]
        self.weights = {}
        places = list(self.places(held_out))
        for _ in range(iterations):
            sums = {}
            for history, word in places:
                q, p = self.bin(history), self.predictors(history, word)
                joint = [a * one for a, one in zip(self.weights.get(q, [0.25] * 4), p, strict=True)]
                for i, one in enumerate(joint):
                    sums.setdefault(q, [0.0] * 4)[i] += one / sum(joint)
            self.weights = {q: [one / sum(of) for one in of] for q, of in sums.items()}

    def places(self, tokens):
        padded = [START, START, *map(int, tokens)]
        return (((padded[i - 2], padded[i - 1]), padded[i]) for i in range(2, len(padded)))

    def bin(self, history):
        return math.ceil(-math.log((1 + self.before[2][history]) / self.total))

    def predictors(self, history, word):
        p = [1 / V, self.grams[0][(word,)] / self.total]
        for n in (1, 2):
            seen = self.before[n][history[2 - n :]]
            p.append(self.grams[n][(*history[2 - n :], word)] / seen if seen else p[-1])
        return p

    def p(self, history, word):
        weights = self.weights.get(self.bin(history), [0.25] * 4)
        return sum(a * one for a, one in zip(weights, self.predictors(history, word), strict=True))


@pytest.fixture(scope="module")
def trigram():
    train, held_out = text(0, 400), text(1, 150, words=12)
    return DeletedInterpolation(train, held_out, V, iterations=3), ByDictionaries(train, held_out, 3)


def test_deleted_interpolation_is_the_equation(trigram):
    ours, oracle = trigram
    new = text(2, 90, words=13)
    expected = [oracle.p(history, word) for history, word in oracle.places(new)]
    np.testing.assert_allclose(ours.probabilities(new), expected, rtol=1e-12)
    assert len({oracle.bin(history) for history, _ in oracle.places(new)}) > 2


def test_deleted_interpolation_is_a_distribution(trigram):
    """After seen and unseen words, and at the beginning."""
    for history in ([], [3], [12], [3, 3], [12, 3], [3, 12], [12, 12]):
        p = [trigram[0].probabilities(np.array([*history, word]))[-1] for word in range(V)]
        assert min(p) >= 0 and sum(p) == pytest.approx(1, abs=1e-12)


def test_em_only_raises_the_likelihood():
    train, held_out = text(0, 400), text(1, 150, words=12)
    found = [
        np.log(DeletedInterpolation(train, held_out, V, iterations=n).probabilities(held_out)).sum()
        for n in (0, 1, 2, 5, 20)
    ]
    assert found == sorted(found) and found[0] < found[-1]


def objective(tokens, classes, number):
    """F and the counts of pairs of classes, from the text."""
    pairs = np.zeros((number, number))
    for one, other in zip(tokens[:-1], tokens[1:], strict=True):
        pairs[classes[one], classes[other]] += 1
    f = lambda counts: sum(n * math.log(n) for n in np.ravel(counts) if n)
    return f(pairs) - f(pairs.sum(0)) - f(pairs.sum(1)), pairs


def test_each_exchange_takes_the_best_class():
    """Every gain is the difference of F, counted from the text anew, and the counts are kept up to date."""
    tokens, number = text(3, 250), 4
    search = Exchange(tokens, V, number)
    for word in [*search.order] * 2:
        after, before, twice = search._around(word)
        search._add(search.classes[word], after, before, twice, -1)
        gains = search._gains(after, before, twice)
        moved = lambda to, word=word: np.where(np.arange(V) == word, to, search.classes)
        expected = np.array([objective(tokens, moved(to), number)[0] for to in range(number)])
        np.testing.assert_allclose(gains - gains[0], expected - expected[0], atol=1e-9)
        best = int(np.argmax(expected))
        search.classes[word] = best
        search._add(best, after, before, twice, 1)
        value, pairs = objective(tokens, search.classes, number)
        np.testing.assert_array_equal(search.pairs, pairs)
        assert search.objective() == pytest.approx(value)


def test_exchange_ends_where_no_word_can_move():
    tokens, number = text(4, 300), 4
    classes = exchanged(tokens, V, number)
    value, _ = objective(tokens, classes, number)
    start = Exchange(tokens, V, number)
    assert value > start.objective() and set(classes) <= set(range(number))
    for word in set(tokens):
        for to in range(number):
            assert objective(tokens, np.where(np.arange(V) == word, to, classes), number)[0] <= value + 1e-9
    assert set(classes[11:]) == {number - 1}  # these words do not occur
    np.testing.assert_array_equal(start.classes, exchanged(tokens, V, number, rounds=0))


def test_words_of_a_class_share_their_contexts():
    """Six words in two classes that take turns."""
    rng = np.random.default_rng(5)
    tokens = np.array([3 * (i % 2) + rng.integers(3) for i in range(300)])
    classes = exchanged(tokens, 6, 2)
    assert len(set(classes[:3])) == len(set(classes[3:])) == 1 and classes[0] != classes[3]


def test_a_class_model_is_a_class_and_a_word_of_it():
    tokens, new = text(6, 300), text(7, 60, words=13)
    classes = np.arange(V) % 3
    ours = ClassModel(tokens, classes, 3).probabilities(new)
    of_class = KneserNey(TokenArray.join([classes[tokens]]), 3, 3)
    sequence = TokenArray.join([classes[new]])
    p = of_class.probabilities(of_class.history(sequence), sequence.flat.astype(np.int64))
    counts = {word: max(int((tokens == word).sum()), 1) for word in range(V)}
    within = [counts[word] / sum(counts[one] for one in range(V) if classes[one] == classes[word]) for word in new]
    np.testing.assert_allclose(ours, p * within, rtol=1e-12)
    total = [ClassModel(tokens, classes, 3).probabilities(np.array([2, 5, w]))[-1] for w in range(V)]
    assert sum(total) == pytest.approx(1, abs=1e-12)


def test_log_probabilities_are_those_of_the_tokens_in_order():
    """A model that says -(token + row) of each token; the last row is padded."""
    rows = np.array([[5, 6, 7], [8, 9, 4], [10, 0, 0]])
    batches = lambda split, size: iter(
        [(np.array([0, 1]), {"target": rows[:2]}), (np.array([2, -1]), {"target": np.stack([rows[2], [0, 0, 0]])})]
    )
    model = lambda: SimpleNamespace(
        log_likelihood=lambda batch: ({"log_likelihood": -batch["target"].astype(float)}, {})
    )
    trained = SimpleNamespace(
        trainer=SimpleNamespace(structure=SimpleNamespace(merge=model)),
        model=lambda: (),
        data=SimpleNamespace(evaluation_batches=batches),
        evaluation=SimpleNamespace(batch_size=2),
    )
    for count in (7, 4, 6):
        found = measures.log_probabilities(trained, "test", count)
        np.testing.assert_array_equal(found, -np.array([5, 6, 7, 8, 9, 4, 10])[:count])
    assert measures.perplexity(np.array([0.5, 0.125])) == pytest.approx(4)


@pytest.mark.data
@pytest.mark.slow  # reads the Brown corpus, and downloads it once
def test_the_perplexities_of_the_corpus_are_near_the_printed_ones():
    """Within 6 % of Table 1, whose text has marks of paragraphs too."""
    of = {"config": "configs/language_modelling/brown.py:mlp", "tokens": None}
    for order, printed in ((3, 323), (5, 321)):
        assert measures.measure_kneser_ney(**of, order=order)["test"] == pytest.approx(printed, rel=0.04)
    found = measures.measure_deleted_interpolation(**of)
    for name, printed in {"training": 31, "validation": 352, "test": 336}.items():
        assert found[name] == pytest.approx(printed, rel=0.06)

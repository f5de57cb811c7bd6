"""Floors: n-grams against NLTK and the paper's equations, translation memories by brute force, the rest by hand."""

import math
from collections import Counter, defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from attention_research import registry
from attention_research.data.collage_questions import CollageQuestions
from attention_research.data.generated_reviews import GeneratedReviews
from attention_research.data.objectives.masked_tokens import MaskedText
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.studies.columns import floor_titles
from attention_research.tasks.error_rate import ErrorRateEvaluation, error_rates
from attention_research.tasks.evaluation import BleuEvaluation, Evaluation, corpus_bleu
from attention_research.tasks.floors import floors_of, labels, memory, written
from attention_research.tasks.floors.cloze import cloze_perplexity
from attention_research.tasks.floors.endings import replaced_endings
from attention_research.tasks.floors.kneser_ney import FALLBACK, KneserNey, discounts_of
from attention_research.tasks.naming import NamingEvaluation
from attention_research.tasks.parseval import ParsevalEvaluation
from attention_research.tasks.perplexity import PerplexityEvaluation, unigram_perplexity
from attention_research.tasks.programs import ProgramEvaluation
from attention_research.tasks.rationale_evaluation import RationaleEvaluation
from attention_research.tasks.text_to_text_evaluation import TextToTextEvaluation
from attention_research.training.scoring import scores_of

VOCABULARY, END = 23, 2


def sentences(seed, number):
    """Sentences of a few words with the end token. Some words are much more frequent than others."""
    rng = np.random.default_rng(seed)
    words = np.arange(3, 19)  # the last four words of the vocabulary never occur
    p = 1.0 / np.arange(1, 17)
    return [[*rng.choice(words, rng.integers(0, 11), p=p / p.sum()).tolist(), END] for _ in range(number)]


class ByDictionaries:
    """Chen & Goodman 1999, equation 26 word by word, in dictionaries. None stands for the start of a sentence."""

    def __init__(self, text, order):
        self.order = order
        grams = [
            tuple(([None] * (order - 1) + sentence)[place : place + order])
            for sentence in text
            for place in range(len(sentence))
        ]
        self.counts = {order: Counter(grams)}
        for size in range(order - 1, 0, -1):
            self.counts[size] = Counter(gram[1:] for gram in self.counts[size + 1])  # N1+(. gram)
        self.after = defaultdict(dict)
        for counts in self.counts.values():
            for gram, count in counts.items():
                self.after[gram[:-1]][gram[-1]] = count
        self.discounts = {size: self.estimated(list(counts.values())) for size, counts in self.counts.items()}

    @staticmethod
    def estimated(counts):
        n1, n2, n3, n4 = (counts.count(count) for count in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return FALLBACK
        y = n1 / (n1 + 2 * n2)
        found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        return found if all(0 <= d <= k for k, d in enumerate(found, 1)) else FALLBACK

    def p(self, word, history):
        lower = self.p(word, history[1:]) if history else 1 / VOCABULARY
        after = self.after.get(tuple(history))
        if after is None:
            return lower
        discount = lambda count: 0.0 if count == 0 else self.discounts[len(history) + 1][min(count, 3) - 1]
        total, count = sum(after.values()), after.get(word, 0)
        gamma = sum(discount(other) for other in after.values()) / total
        return max(count - discount(count), 0.0) / total + gamma * lower


@pytest.mark.parametrize("order", (1, 2, 3, 5))
def test_probabilities_are_the_papers_equations_in_dictionaries(order):
    text, new = sentences(0, 211), sentences(1, 29)
    oracle = ByDictionaries(text, order)
    found = KneserNey(TokenArray.join(text), VOCABULARY, order)
    if order == 3:
        assert oracle.discounts[2] != FALLBACK  # estimated, not the fallback
    padded = [[None] * (order - 1) + sentence for sentence in new]
    expected = [
        oracle.p(sentence[place], sentence[place - order + 1 : place])
        for sentence in padded
        for place in range(order - 1, len(sentence))
    ]
    tokens = TokenArray.join(new)
    p = found.probabilities(found.history(tokens), tokens.flat.astype(np.int64))
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    assert found.perplexity(tokens) == pytest.approx(math.exp(-np.mean(np.log(expected))), rel=1e-12)


@pytest.mark.slow  # importing NLTK takes a second
@pytest.mark.parametrize("order", (2, 3))
def test_with_one_discount_it_is_nltks(order):
    from nltk import lm  # comes with rouge-score

    text = sentences(3, 41)
    theirs = lm.KneserNeyInterpolated(order, discount=0.3)
    grams = []
    for sentence in text:
        padded = ["<s>"] * (order - 1) + [str(word) for word in sentence]
        for end in range(order - 1, len(padded)):
            grams += [tuple(padded[end - size + 1 : end + 1]) for size in range(1, order + 1)]
    theirs.fit([grams], vocabulary_text=[str(word) for word in range(VOCABULARY)])
    # NLTK's lowest order has no discount.
    ours = KneserNey(TokenArray.join(text), VOCABULARY, order, discounts=(0.0, *[0.3] * (order - 1)))
    for history in ([4, 3], [3, 3], [VOCABULARY] * 2, [22, 5], [5, 22], [VOCABULARY, 3]):
        history = history[-(order - 1) :]
        context = ["<s>" if word == VOCABULARY else str(word) for word in history]
        words = np.arange(2, 19)
        p = ours.probabilities(np.tile(history[::-1], (len(words), 1)), words)
        np.testing.assert_allclose(p, [theirs.score(str(word), context) for word in words], rtol=1e-12)


def test_every_history_has_a_distribution():
    """Histories that were seen, seen in part or never seen, and the sentence start; estimated and fixed discounts."""
    text = TokenArray.join(sentences(5, 131))
    for discounts in (None, (0.7, 0.4, 0.9)):
        model = KneserNey(text, VOCABULARY, 3, discounts)
        for history in ([3, 3], [3, 4], [3, 21], [21, 3], [21, 22], [VOCABULARY] * 2, [5, VOCABULARY]):
            p = model.probabilities(np.tile(history, (VOCABULARY, 1)), np.arange(VOCABULARY))
            assert np.all(p > 0) and p.sum() == pytest.approx(1, abs=1e-12)
    assert model.probabilities(np.array([[VOCABULARY] * 2]), np.array([3]))[0] > 0.1  # the start counts as a history


def test_discounts_by_hand():
    counts = np.repeat([1, 2, 3, 4, 9], [40, 20, 10, 5, 3])
    y = 40 / 80
    np.testing.assert_allclose(discounts_of(counts), [0, 1 - y, 2 - 1.5 * y, 3 - 2 * y])
    for few in (np.array([1, 2, 3]), np.repeat([1, 2, 3, 4], [1, 1, 9, 1])):
        assert discounts_of(few).tolist() == [0, *FALLBACK]


# Translation memories


def dice(one, other):
    sets = [{f" {text} "[place : place + 3] for place in range(len(text))} for text in (one, other)]
    return 2 * len(sets[0] & sets[1]) / (len(sets[0]) + len(sets[1]))


@pytest.mark.parametrize("spelled", (False, True))
def test_the_nearest_source_by_brute_force(spelled):
    rng = np.random.default_rng(7)
    text = lambda: "".join(rng.choice(list("ab" if spelled else "ab é€𝄞"), rng.integers(2, 9))).strip() or "a"
    asked, known = [text() for _ in range(53)], [text() for _ in range(97)]
    apart = (lambda texts: [" ".join(one) for one in texts]) if spelled else list
    found = memory.nearest(apart(asked), apart(known))
    for one, place, similarity in zip(asked, *found, strict=True):
        scores = [dice(one, other) for other in known]
        assert similarity == pytest.approx(max(scores))
        assert place == int(np.argmax(np.round(scores, 9)))  # the first of equals
    assert 0.2 < found.similarity.min() < 1 == found.similarity.max() if spelled else found.similarity.max() > 0.5


def test_an_empty_text_is_similar_to_none():
    found = memory.nearest(["", "cab", "a"], ["cab", "", "abc"])
    assert found.place.tolist() == [0, 0, 0] and found.similarity.tolist() == [0.0, 1.0, 0.0]


class Pairs:
    """Pairs with one word a token and only those parts of the interface that `floors` uses."""

    training = (
        ["Turn on the lamp", "Delete", "Turn off the radio", "Hello"],
        ["Bitte die Lampe an", "Das jetzt sofort löschen", "Das Radio bitte aus", "An"],
    )
    tests = (
        ["Turn off the lamp", "Quit all of it", "Delete it"],
        ["Bitte die Lampe an oder aus", "Quit all of it now", "Das jetzt sofort löschen, Sie"],
    )
    tokenizer = SimpleNamespace(size=13)
    _prepared = SimpleNamespace(splits={"train": {"digest": "0"}})

    def text(self, split):
        return self.training if split == "train" else self.tests

    def evaluation_batches(self, split, rows, examples=None):
        assert split == "test"
        yield np.array([2, 0]), {}
        yield np.array([1, -1]), {}

    def target_sentences(self, split, examples=None):
        return TokenArray.join([[5, 2], [6, 2], [7, 2], [5, 2]] if split == "train" else [[5, 7, 2], [6, 2]])

    def target_tokens(self, split, examples=None):
        return self.target_sentences(split).flat

    def target_counts(self):
        return np.bincount(self.target_tokens("train"), minlength=13)


def test_floors_copy_sources_or_use_the_nearest_pair():
    data, (sources, references) = Pairs(), Pairs.tests
    found = floors_of(data, BleuEvaluation(near=0.6))
    bleu = lambda texts, rows=(0, 1, 2): corpus_bleu([texts[i] for i in rows], [references[i] for i in rows])[0]
    first, third, second, _ = data.training[1]
    remembered, both = [first, second, third], [first, sources[1], third]
    similar = memory.nearest(sources, data.training[0])
    assert similar.place.tolist() == [0, 2, 1] and (similar.similarity >= 0.6).tolist() == [True, False, True]
    for name, texts in (("copy", sources), ("memory", remembered), ("memory_else_copy", both)):
        expected = {"bleu": bleu(texts), "near_bleu": bleu(texts, (0, 2)), "far_bleu": bleu(texts, (1,))}
        assert found[name] == pytest.approx(expected)
    assert found["copy"]["bleu"] != found["memory"]["bleu"] != found["memory_else_copy"]["bleu"]
    assert set(floors_of(data, BleuEvaluation())["memory"]) == {"bleu"}
    text, new = data.target_sentences("train"), data.target_sentences("test")
    for name, order in (("bigram", 2), ("trigram", 3)):
        assert found[name] == {"perplexity": KneserNey(text, 13, order).perplexity(new)}
    assert found["unigram"] == {"perplexity": unigram_perplexity(data, "test", None)}


def test_near_and_far_are_scored_apart_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path))
    data, lines = Pairs(), []
    sources, references = data.tests
    evaluation, said = BleuEvaluation(near=0.6), ["Die Lampe an oder aus", "Ende", "Jetzt sofort löschen, Sie"]
    assert BleuEvaluation().by_distance(said, references, sources, data, lines.append) == {}
    scores = evaluation.by_distance(said, references, sources, data, lines.append)
    assert scores.pop("near_sources").tolist() == [True, False, True]
    near, far = [said[0], said[2]], [said[1]]
    assert scores == {
        "near_bleu": corpus_bleu(near, [references[0], references[2]])[0], "near_sentences": 2,
        "far_bleu": corpus_bleu(far, [references[1]])[0], "far_sentences": 1,
    }  # fmt: skip
    assert f"near {scores['near_bleu']:.2f} (2 sentences) · far 0.00 (1" in evaluation.distance_summary(scores)

    def gone(split):
        raise ConfigError("the text is gone")

    monkeypatch.setattr(data, "text", gone, raising=False)
    again = evaluation.by_distance(said, references, sources, data, lines.append)
    assert again.pop("near_sources").sum() == 2 and again == scores and not lines
    assert evaluation.by_distance(said, references, ["another"] * 3, data, lines.append) == {}
    said = "evaluation.near: without the training text, there are no scores of near and far sources (the text is gone)"
    assert lines == [said]
    assert evaluation.distance_summary({}) == ""
    alone = memory.by_distance(np.zeros(1, bool), ["a"], ["b"])
    assert "near_bleu" not in alone and alone["near_sentences"] == 0


def test_the_prefix_of_a_task_is_no_part_of_the_sources(tmp_path, monkeypatch):
    """The same pairs as text to text have the same floors and scores, with near and far sources, too."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path))
    prefix, plain = "translate English to German: ", Pairs()
    said = lambda sides: ([prefix + source for source in sides[0]], sides[1])
    prefixed = Other(said(plain.training), said(plain.tests), prefix=prefix)
    bleu, written = BleuEvaluation(near=0.6), [*plain.tests[1][1:], "An"]
    assert floors_of(prefixed, bleu) == floors_of(plain, bleu)
    texts = lambda one, sources: dict(enumerate(written))
    ours, theirs = (scores_of(bleu, one, texts, lambda _: iter(()), print) for one in (prefixed, plain))
    assert ours.pop("samples")[0]["source"] == prefix + theirs.pop("samples")[0]["source"]
    assert ours == theirs and (ours["near_sentences"], ours["far_sentences"]) == (2, 1)


class Other(Pairs):
    """Text data of another kind."""

    def __init__(self, training, tests, **said):
        self.training, self.tests = training, tests
        self.__dict__ |= said


def test_pronunciation_floors_use_the_nearest_word_and_letters():
    data = Other((["c a t s", "d o"], ["K AE T S", "D UW"]), (["c a t", "a c", "d o e"], ["K AE T", "AE K", "D OW"]))
    found = floors_of(data, ErrorRateEvaluation())
    sources, references = data.tests
    expected = error_rates(["K AE T S", "K AE T S", "D UW"], references, sources)
    assert (found["nearest_source"]["error_rate"], found["nearest_source"]["word_error_rate"]) == expected
    score = ErrorRateEvaluation().score(references, references, sources)
    assert found["token_by_token"]["error_rate"] == score["token_by_token_error_rate"]


def test_inflection_has_the_rule_of_the_longest_known_ending():
    """By hand: the longest known ending of each verb and its most frequent replacement."""
    sources = ["a i m e r 1PL", "f i n i r 1PL", "t e n i r 1PL", "o u v r i r 1PL", "a i m e r 3SG", "m e t r e 3SG"]
    targets = ["a i m o n s", "f i n i s s o n s", "t e n o n s", "o u v r o n s", "a i m e", "m e t"]
    asked = ["s e m e r 1PL", "b e n i r 1PL", "m i r 1PL", "e t r e 3SG", "x y 2PL", ""]
    # "e n i r" is known of "tenir". "i r" has "o n s" twice and "i s s o n s" once.
    expected = ["s e m o n s", "b e n o n s", "m o n s", "e t", "x y 2PL", ""]
    assert replaced_endings(sources, targets, asked) == expected
    assert replaced_endings(["a r", "b r"], ["a s", "b n"], ["c r"]) == ["c n"]  # the first of equals
    answers = ["s e m o n s", "b e n i s s o n s", "m i s s o n s"]
    found = floors_of(Other((sources, targets), (asked[:3], answers)), ErrorRateEvaluation())["replaced_ending"]
    assert (found["error_rate"], found["word_error_rate"]) == error_rates(expected[:3], answers, asked[:3])
    for pairs in ((["a b", "c"], ["a b", "d"]), (["c a t"], ["K AE T"])):  # copies; other letters
        assert "replaced_ending" not in floors_of(Other(pairs, (["a"] * 3, ["b"] * 3)), ErrorRateEvaluation())


# Other texts


def test_text_to_text_has_the_floors_of_its_metrics():
    topics = Other(
        (["t: a bad film", "t: a bad book", "t: a good film", "t: good"], ["no", "no", "yes", "yes"]),
        (["t: bad", "t: so good", "t: good film"], ["no", "yes", "yes"]),
    )
    found = floors_of(topics, TextToTextEvaluation())
    assert found["majority"] == pytest.approx({"accuracy": 100 / 3, "score": 100 / 3})  # "no", the first of equals
    assert found["tfidf_logistic"]["accuracy"] == 100 and "trigram" in found and "lead" not in found
    story = ["s: Rain fell. It was late."] * 3
    news = Other((["s: Old. News."], ["Old news"]), (story, ["Rain fell."] * 3), prefix="s: ")
    found = floors_of(news, TextToTextEvaluation(metrics=("rouge1", "rougeL")))
    assert found["lead"] == pytest.approx({"rouge1": 100, "rougeL": 100, "score": 100}) != found["majority"]
    said = ["Berlin Ulm Hamburg Bonn Trier", "Jesus wept, and so did they", "he gave him what he had"]
    tests = ([f"say: {text}" for text in said], said)
    written = Other((["say: x", "say: zz"], ["no text of these", "nor this one here"]), tests, prefix="say: ")
    found = floors_of(written, TextToTextEvaluation(metrics=("bleu",)))
    assert found["memory_else_copy"]["bleu"] == found["copy"]["bleu"] == pytest.approx(100) != found["memory"]["bleu"]
    facts = Other(
        (["Who wrote Emma?", "Who shot JR?"], ["Austen", "Kristin"]), (["Who wrote Emma"] * 3, ["Austen"] * 3)
    )
    assert floors_of(facts, TextToTextEvaluation(metrics=("exact_match",)))["nearest_source"]["exact_match"] == 100
    assert floors_of(Pairs(), TextToTextEvaluation(metrics=("bleu",))).keys() >= {"copy", "memory", "majority"}


def test_trees_programs_and_names():
    trees = Other(([], []), (["a b", "a", "b"], ["(S (NP XX )NP XX )S", "(S XX )S", "(S (NP XX )NP )S"]))
    assert floors_of(trees, ParsevalEvaluation())["flat"]["f1"] == pytest.approx(100 * 6 / 8)
    program = "def f ( xs ) : return len ( xs )"
    code = Other((["count them", "sort"], [program, "def f ( xs ) : return xs"]), (["count"] * 3, [program] * 3))
    assert floors_of(code, ProgramEvaluation())["nearest_source"]["passes"] == 100
    names = Other(
        (["get x", "y", "z"], ["get size", "get size", "run"]), (["size get", "q", "r"], ["get size", "a", "run"])
    )
    found = floors_of(names, NamingEvaluation())
    assert found["frequent"]["f1"] == pytest.approx(100 / 3) == found["first_words"]["f1"] and "bigram" not in found
    assert found["frequent"]["exact_match"] == pytest.approx(100 / 3) != found["first_words"]["exact_match"]


def test_captions_of_other_pictures_are_a_floor():
    data = Other((["0", "1"], [["a dog", "a cat"], ["a dog"]]), (["0", "1", "2"], [["a dog"], ["a cat"], ["a dog"]]))
    evaluation = registry.lookup("evaluation", "captions")()
    found = floors_of(data, evaluation)
    score = evaluation.score(["a dog"] * 3, data.tests[1], data.tests[0])
    assert found["frequent"]["bleu_1"] == score["bleu_1"] and found["other"]["bleu_1"] == score["other_bleu_1"]


# Classes and ratings


def test_the_linear_model_is_scikit_learns_of_words_and_pairs():
    from sklearn.feature_extraction import text
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(11)
    texts = [" ".join(rng.choice(list("abcdefg"), rng.integers(3, 12))) for _ in range(113)]
    true = rng.integers(0, 3, 113)
    terms = text.TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True, min_df=2)
    model = LogisticRegression(C=10.0, max_iter=200).fit(terms.fit_transform(texts[:83]), true[:83])
    split = [one.split() for one in texts]
    found = labels.predicted(split[:83], true[:83], split[83:])
    np.testing.assert_array_equal(found, model.predict(terms.transform(texts[83:])))
    assert labels.predicted(split[:3], np.array([2, 2, 2]), split[:5]).tolist() == [2] * 5
    assert labels.predicted([["a"], ["b"], ["c"]], np.array([0, 1, 1]), [["a"]]).tolist() == [1]


def test_classes_by_hand():
    data = SimpleNamespace(
        classes=("no", "yes"), labels=lambda split: np.array([1, 1, 0] if split == "train" else [0, 1, 1, 0]),
        evaluation_batches=lambda split, rows, examples: iter([(np.array([3, 0]), {}), (np.array([2, -1]), {})]),
    )  # fmt: skip
    evaluation = registry.lookup("evaluation", "classification")()
    assert floors_of(data, evaluation) == {"majority": pytest.approx({"accuracy": 100 / 3, "macro_f1": 25.0})}


@pytest.mark.slow
def test_questions_without_pictures_are_a_floor():
    evaluation = registry.lookup("evaluation", "classification")()
    asked = CollageQuestions(side=48, max_length=13, vocabulary_size=61, train_pictures=67, held_out=11)
    found = floors_of(asked, evaluation)
    assert 0 <= found["majority"]["accuracy"] < 40 and 0 < found["tfidf_logistic"]["accuracy"] < 80


def test_the_mean_rating():
    data = GeneratedReviews(max_length=29, vocabulary_size=97, train_examples=31)
    found = floors_of(data, RationaleEvaluation(examples=7))
    ids, batch = next(data.evaluation_batches("test", 7, 7))
    mean = data.arrays("train")["ratings"].astype(np.float64).mean()
    assert found == {"mean": {"mean_squared_error": pytest.approx(np.mean((batch["ratings"] - mean) ** 2))}}


MASK = 6


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_masked_token_has_the_probability_of_its_whole_sentence(order):
    """By the probability of the sentence with each token of the vocabulary in its place, without other masks."""
    rng = np.random.default_rng(order)
    model = KneserNey(TokenArray.join([rng.integers(2, 6, rng.integers(3, 9)) for _ in range(20)]), 7, order)
    source = TokenArray.join([[3, MASK, MASK, 2], [MASK], [5, 2, MASK, 3, 4, MASK]])
    target = np.array([0, 5, 2, 0, 4, 3, 0, 2, 0, 0, 3])  # the 5 is random, and its true token is 3

    def written(words, place):
        sentence = TokenArray.join([words])
        each = model.probabilities(model.history(sentence), sentence.flat)
        return np.prod([p for t, p in enumerate(each) if t == place or words[t] != MASK])

    expected, at = [], 0
    for number in range(len(source)):
        words = source[number].tolist()
        for t in range(len(words)):
            if target[at]:
                each = [written([*words[:t], word, *words[t + 1 :]], t) for word in range(7)]
                expected.append(each[target[at]] / sum(each))
            at += 1
    found = cloze_perplexity(model, MaskedText(source, target, MASK))
    assert found == pytest.approx(np.exp(-np.mean(np.log(expected))))


def test_masked_text_has_the_floors_of_both_sides():
    texts = {
        "train": MaskedText(TokenArray.join([[5, 6, 2], [7, 12, 2], [7, 5, 2]]), np.array([0] * 4 + [6] + [0] * 4), 12),
        "test": MaskedText(TokenArray.join([[5, 12, 2], [12, 6, 2]]), np.array([0, 6, 0, 7, 0, 0]), 12),
    }

    class Masked(Pairs):
        def masked_text(self, split, examples=None):
            return texts[split]

    found = floors_of(Masked(), PerplexityEvaluation())
    for name, order in (("bigram", 2), ("trigram", 3)):
        model = KneserNey(TokenArray.join([[5, 6, 2], [7, 6, 2], [7, 5, 2]]), 13, order)
        assert found[name] == {"perplexity": cloze_perplexity(model, texts["test"])}
    assert found["bigram"] != floors_of(Pairs(), PerplexityEvaluation())["bigram"]


def test_every_evaluation_says_its_floors():
    kinds = registry.FAMILIES["evaluation"]
    own = [kind for kind in kinds if registry.lookup("evaluation", kind).floors is not Evaluation.floors]
    # Every data set has n-gram floors for perplexities, and the accuracy of answers has that of guessing. The floors of
    # drawn series are constants, which are stored with the scores.
    assert set(kinds) - set(own) == {"perplexity", "answers", "regression", "position_classes"}
    assert all(floor_titles().values()) and written.COPIED_BELOW < 0.6

"""Scores of captions. Oracles: the scorers and the tokenizer of pycocoevalcap, sacreBLEU, scikit-learn's cosines."""

import contextlib
import io
import math
import random
import shutil

import numpy as np
import pytest
import sacrebleu

from attention_research.tasks.caption_bleu import caption_bleu, closest_length
from attention_research.tasks.captioning_evaluation import CaptioningEvaluation, caption_scores, caption_words
from attention_research.tasks.cider import cider, cider_d
from attention_research.tasks.rouge import caption_rouge

WORDS = "a the cat dog man sits runs on red table with ball in park and small".split()
TEXTS = [
    "A man's t-shirt, isn't it?", "Two dogs -- one black; one white -- run.", "The sign says \"STOP\"!",
    "They're on the street...", "A 2-story house, red, near 5th Ave", "a person can't ride bikes' wheels",
    "A black-and-white photo of people: women and men", "Cats sleep.",
]  # fmt: skip


def drawn(seed, pictures=23):
    """Hypotheses with one to five references each. Some hypotheses are a reference with words changed or repeated."""
    draw = random.Random(seed)
    sentence = lambda: [draw.choice(WORDS) for _ in range(draw.randrange(1, 15))]
    references = [[sentence() for _ in range(draw.randrange(1, 6))] for _ in range(pictures)]
    hypotheses = []
    for given in references:
        words = list(draw.choice(given)) if draw.random() < 0.7 else sentence()
        words[draw.randrange(len(words))] = draw.choice(WORDS)
        hypotheses.append(words * 2 if draw.random() < 0.1 else words)
    return hypotheses, references


SETS = [drawn(seed) for seed in range(20)]


def theirs(scorer, hypotheses, references):
    """The score that a scorer of pycocoevalcap gives a split. Captures the output that it prints."""
    text = lambda lists: {i: [" ".join(words) for words in given] for i, given in enumerate(lists)}
    with contextlib.redirect_stdout(io.StringIO()):
        return scorer.compute_score(text(references), text([[words] for words in hypotheses]))[0]


def test_bleu_rouge_and_cider_d_are_cocos():
    pytest.importorskip("pycocoevalcap", reason="the extra `oracle` is not installed")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    for hypotheses, references in SETS:
        bleu = theirs(Bleu(4), hypotheses, references)
        assert min(bleu) > 0.02, "every order has matches"
        np.testing.assert_allclose(caption_bleu(hypotheses, references), bleu, rtol=1e-8)
        assert caption_rouge(hypotheses, references) == pytest.approx(theirs(Rouge(), hypotheses, references))
        assert cider_d(hypotheses, references) == pytest.approx(theirs(Cider(), hypotheses, references))


def test_bleu_is_sacrebleus_on_the_same_words_without_smoothing():
    for hypotheses, references in SETS[:5]:
        streams = [[" ".join(given[i]) if i < len(given) else None for given in references] for i in range(5)]
        texts = [" ".join(words) for words in hypotheses]
        for order, ours in enumerate(caption_bleu(hypotheses, references), start=1):
            metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", max_ngram_order=order)
            assert 100 * ours == pytest.approx(metric.corpus_score(texts, streams).score)


def test_bleu_without_a_match_of_an_order_is_zero():
    scores = caption_bleu([["a", "cat"]], [[["cat", "a", "mat"]]])
    assert scores[0] == pytest.approx(math.exp(1 - 3 / 2)) and scores[1:] == (0.0, 0.0, 0.0)
    assert caption_bleu([[]], [[["a"]]]) == (0.0,) * 4
    assert closest_length(["a"] * 4, [["b"] * 5, ["c"] * 3]) == 3, "the shorter of two equally close lengths"


def by_cosines(hypotheses, references):
    """CIDEr computed with scikit-learn's counts and cosines."""
    from sklearn.feature_extraction import text
    from sklearn.metrics.pairwise import cosine_similarity

    total = []
    for n in range(1, 5):
        counter = text.CountVectorizer(analyzer="word", ngram_range=(n, n), token_pattern=r"\S+")
        joined = [[" ".join(words) for words in given] for given in references]
        ours = [" ".join(words) for words in hypotheses]
        counter.fit([*ours, *(one for given in joined for one in given)])
        present = sum((counter.transform(given).toarray().max(axis=0) > 0).astype(int) for given in joined)
        weights = np.log(len(references) / np.maximum(present, 1))
        for one, given in zip(ours, joined, strict=True):
            vectors = counter.transform([one, *given]).toarray() * weights
            total.append(cosine_similarity(vectors[:1], vectors[1:]).mean())
    return 10 * np.mean(total)


def test_cider_is_the_mean_cosine():
    for hypotheses, references in SETS[:3]:
        assert cider(hypotheses, references) == pytest.approx(by_cosines(hypotheses, references))


def test_cider_is_ten_for_references_and_cider_d_penalises_repeats():
    long = [[given[0]] for given in SETS[0][1] if len(given[0]) >= 4]
    perfect = [given[0] for given in long]
    assert cider(perfect, long) == pytest.approx(10) == cider_d(perfect, long)
    repeated = [words * 2 for words in perfect]
    assert cider(repeated, long) > 9 and cider_d(repeated, long) < 5


def test_words_are_lower_case_without_punctuation():
    assert caption_words('A "man\u2019s" dog, isn\'t he?') == ["a", "man", "'s", "dog", "is", "n't", "he"]
    assert caption_words("... !") == []


@pytest.mark.slow
def test_words_are_those_of_cocos_tokenizer():
    pytest.importorskip("pycocoevalcap", reason="the extra `oracle` is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed; Stanford's tokenizer needs it")
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    found = PTBTokenizer().tokenize({i: [{"caption": text}] for i, text in enumerate(TEXTS)})
    assert [" ".join(caption_words(text)) for text in TEXTS] == [found[i][0] for i in range(len(TEXTS))]


def test_the_evaluation_takes_one_reference_or_several_and_names_its_floor():
    references = ["A cat sits on a red table.", ("Two dogs run home!", "A pair of dogs runs"), ["one small ball"]]
    hypotheses = ["a cat sits on a red table", "two dogs run home", "a big park"]
    scores = CaptioningEvaluation(examples=3).score(hypotheses, references, ["", "", ""])
    words = [caption_words(text) for text in hypotheses]
    wanted = [[words[0]], [words[1], ["a", "pair", "of", "dogs", "runs"]], [["one", "small", "ball"]]]
    for name, score in caption_scores(words, wanted).items():
        assert scores[name] == score
    assert scores["bleu_1"] == pytest.approx(100 * 11 / 14) and scores["signature"].startswith("coco-caption|")
    swapped = [words[1], ["one", "small", "ball"], words[0]]
    for name, score in caption_scores(swapped, wanted).items():
        assert scores[f"other_{name}"] == score < 10
    line = CaptioningEvaluation().summary(scores)
    assert line.startswith("BLEU-1 78.57 (") and "CIDEr-D" in line

"""BLEU by source length against sacreBLEU on the same sentences, and translation of whole sentences in any order."""

from functools import partial
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import sacrebleu

from attention_research.analysis.by_length import by_length, sample, slope, translate
from attention_research.data.pairs import Pairs
from attention_research.decoding.greedy import Greedy
from attention_research.tokens import EOS

SOURCES = ["a b", "a b c", "a b c d e", "a b c d e f g", "a b c d"]
REFERENCES = ["one two three four five", "six seven eight nine", "one two six four seven", "two", "one three five six"]
HYPOTHESES = ["one two three four nine", "six seven eight nine", "one two six four five", "one", "one three five six"]


def test_the_bleu_of_a_bucket_equals_sacrebleus():
    found = by_length(HYPOTHESES, REFERENCES, SOURCES, (0, 4, 6, 7), least=2)
    assert found["sentences"] == [2, 2, 0] and found["words"] == [2.5, 4.5, None]
    for bucket, inside in enumerate(([0, 1], [2, 4])):
        theirs = sacrebleu.corpus_bleu([HYPOTHESES[i] for i in inside], [[REFERENCES[i] for i in inside]]).score
        assert found["bleu"][bucket] == pytest.approx(theirs) and theirs > 10
    assert found["bleu"][2] is None
    assert by_length(HYPOTHESES, REFERENCES, SOURCES, (0, 4), least=3)["bleu"] == [None]


def test_an_edge_belongs_to_the_bucket_above():
    assert by_length(HYPOTHESES, REFERENCES, SOURCES, (2, 3, 5, 7), least=9)["sentences"] == [1, 2, 1]


def test_the_slope_is_a_linear_fit_without_empty_buckets():
    assert slope([2.0, 5.0, None, 11.0, 20.0], [30.0, 24.0, None, 12.0, None]) == pytest.approx(-2.0)
    assert slope([2.0, 5.0], [None, 24.0]) is None


def test_a_sample_is_the_beginning_of_one_permutation():
    assert sample(11, 4) == sample(11)[:4] and sorted(sample(11)) == list(range(11)) != sample(11)


class Copier:
    """A model that writes its source and then ends, so that the output shows the input tokens."""

    def encode(self, source):
        return {"tokens": source["tokens"]}

    def start(self, memory, length=None):
        return {"tokens": memory["tokens"], "index": jnp.zeros(memory["tokens"].shape[0], jnp.int32)}

    def step(self, cache, tokens):
        index = cache["index"][0]
        width = cache["tokens"].shape[1]
        now = jnp.where(index < width, cache["tokens"][:, jnp.minimum(index, width - 1)], EOS)
        scores = jnp.where(jnp.arange(97)[None] == now[:, None], 0.0, -50.0)
        return {**cache, "index": cache["index"] + 1}, scores, {}


@pytest.fixture(scope="module")
def trained():
    """The parts of `Trained` that translation needs. A token is a number between spaces."""
    tokenizer = SimpleNamespace(
        encode=lambda texts: [[*map(int, text.split()), EOS] for text in texts],
        decode=lambda rows: [" ".join(str(i) for i in row if i > EOS) for row in rows],
    )
    structure = SimpleNamespace(merge=lambda *arrays: Copier())
    return SimpleNamespace(
        data=SimpleNamespace(tokenizer=tokenizer, read=partial(Pairs.read, SimpleNamespace(tokenizer=tokenizer))),
        model=lambda: ({"x": jnp.zeros(1)}, {}),
        trainer=SimpleNamespace(structure=structure),
        decoding=Greedy(extra_length=3),
    )


def test_every_sentence_gets_its_own_translation_in_any_order(trained):
    rng = np.random.default_rng(5)
    texts = [" ".join(map(str, rng.integers(4, 97, rng.integers(1, 23)))) for _ in range(67)]
    assert translate(trained, texts, longest=29) == texts


def test_only_sentences_above_the_limit_are_cut_and_keep_their_end(trained):
    long = " ".join(map(str, range(4, 30)))
    assert translate(trained, [long, "7 5"], longest=11) == [" ".join(map(str, range(4, 14))), "7 5"]


def test_another_model_can_replace_the_trained_one(trained):
    class Shifted(Copier):
        def encode(self, source):
            tokens = source["tokens"]
            return {"tokens": jnp.where(tokens > EOS, tokens + 1, tokens)}

    assert translate(trained, ["7 5"], longest=11, around=lambda model: Shifted()) == ["8 6"]

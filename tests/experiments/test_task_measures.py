"""Scores that need no model, cells of lengths, the article's gender: by hand, against models with known outputs."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.data.articles import sentences
from attention_research.data.words import Words
from attention_research.experiments.lectures.agreement import article_gender
from attention_research.experiments.lectures.seq2seq_tasks import length_cells
from attention_research.experiments.lectures.seq2seq_tasks.floors import nearest
from attention_research.tasks.floors.written import lead


def test_a_lead_sentence_ends_before_a_capital_letter():
    assert lead('"Stop it!" She said so at 3.15 p.m. on Monday. Then she left.') == '"Stop it!"'
    assert lead("It fell 3.5 % to 1.2bn in May, he said. It rose.") == "It fell 3.5 % to 1.2bn in May, he said."
    assert lead("No stop at all") == "No stop at all"


def test_the_nearest_text_shares_most_words():
    rng = np.random.default_rng(0)
    text = lambda: " ".join(rng.choice(list("abcdef"), rng.integers(1, 7)))
    questions, known = [text() for _ in range(40)], [text() for _ in range(60)]

    def dice(one, other):
        shared = sum(min(one.split().count(word), other.split().count(word)) for word in set(one.split()))
        return 2 * shared / (len(one.split()) + len(other.split()))

    for question, found in zip(questions, nearest(questions, known), strict=True):
        scores = [dice(question, other) for other in known]
        assert scores[found] == pytest.approx(max(scores)) and found == int(np.argmax(np.round(scores, 6)))


def test_cells_hold_accuracies_and_leave_out_long_examples():
    right, sources, targets = [True, False, True, True], [1, 2, 4, 9], [1, 1, 2, 2]
    shares, counts = length_cells.cells(right, sources, targets, (1, 3, 5))
    assert shares == [[0.5, None], [1.0, None]] and counts == [[2, 0], [1, 0]]


class Known:
    """A model whose log p of a target token comes from a table: (any source token, target token) -> value."""

    def __init__(self, score, attention=None):
        self.score, self.attention = score, attention

    def log_likelihood(self, batch):
        source, target = batch["source"], batch["target"]
        values = self.score[source[:, :, None], target[:, None, :]].sum(axis=1)
        weights = jnp.zeros((*target.shape, source.shape[1])) if self.attention is None else self.attention
        return {"log_likelihood": values, "mask": target != 0}, {"decoder": {"alignment": weights}}


def run_of(model, data):
    """A run with this model, in the form that the measures use."""
    structure = SimpleNamespace(merge=lambda *arrays: model)
    config = SimpleNamespace(resolved={"data": {"max_length": 24}})
    return lambda workdir: SimpleNamespace(
        trainer=SimpleNamespace(structure=structure), model=lambda: (), data=data, config=config
    )


class Data:
    """Pairs of made-up sentences in batches of one width."""

    def __init__(self, pairs, size):
        self.pairs, self.tokenizer = pairs, Words(vocabulary_size=size)
        words = sorted({word for pair in pairs for side in pair for word in side.split()})
        self.tokenizer._words = tuple(words)
        self.tokenizer._ids = {word: number + 4 for number, word in enumerate(words)}

    def text(self, split):
        return tuple(map(list, zip(*self.pairs, strict=True)))

    def read(self, texts):
        return self.tokenizer.encode(texts)

    def evaluation_batches(self, split, batch_size, examples):
        batch = {name: np.zeros((5, 6), np.int32) for name in ("source", "target")}
        for name, texts in zip(batch, self.text(split), strict=True):
            for row, ids in enumerate(self.read(texts)):
                batch[name][row, : len(ids)] = ids
        yield np.array([0, 1, 2, -1, -1]), batch


def test_gender_accuracy_of_models_with_known_answers(monkeypatch):
    """A model that always predicts masculine is right on masculine nouns. One that reads the nouns is always right."""
    pairs = [pair for pair, _ in zip(sentences(), range(60), strict=False)]
    data = Data(pairs, 160)
    ids = data.tokenizer._ids
    masculine = np.zeros((160, 160), np.float32)
    masculine[:, [ids[form] for form in ("le", "un", "mon", "ce")]] = 1.0
    attention = jnp.zeros((64, 24, 24)).at[:, 0, 1].set(0.5)
    monkeypatch.setattr(article_gender, "Trained", run_of(Known(jnp.asarray(masculine), attention), data))
    found = article_gender.measure_gender(workdir=None, seed=0, examples=None)
    wanted = [form in ("le", "un", "mon", "ce") for _, target in pairs for form in target.split()
              if form in article_gender.OTHER]  # fmt: skip
    assert found["gender"] == pytest.approx(np.mean(wanted)) and 0.2 < found["gender"] < 0.8
    assert found["distances"] == list(range(9)) and len(found["noun_mass"]) == 9
    assert found["drop"] == pytest.approx(found["near"] - found["far"])
    # Without an adjective the article's noun is the next word: the attention is on it for 1 phrase in 2.
    assert 0 < found["noun_mass"][0] <= 0.5 and not any(found["noun_mass"][1:])

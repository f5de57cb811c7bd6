"""Perplexity from a table of costs, by hand. Rows that only fill a batch and padding do not count."""

import jax.numpy as jnp
import numpy as np

from attention_research.tasks.perplexity import PerplexityEvaluation, unigram_perplexity


class Priced:
    """Token 7 costs log 4, and every other token costs log 2."""

    def log_likelihood(self, batch):
        price = -jnp.log(jnp.where(batch["target"] == 7, 4.0, 2.0))
        return {"log_likelihood": price, "mask": batch["target"] != 0}, {}


class Tokenizer:
    size = 9


class Targets:
    """Token 5 occurs three times in training, token 7 once. The test split has one of each."""

    tokenizer = Tokenizer()

    def target_tokens(self, split, examples=None):
        return np.array([5, 7])

    def target_counts(self):
        return np.bincount([5, 5, 5, 7], minlength=self.tokenizer.size)


def test_perplexity_is_the_mean_over_real_tokens_of_real_rows():
    evaluation = PerplexityEvaluation(split="test")
    batches = [(np.array([3, 0]), [[7, 7, 5], [5, 0, 0]]), (np.array([1, -1]), [[7, 5, 0], [7, 7, 7]])]
    triples = []
    for ids, target in batches:
        batch = {"target": jnp.asarray(target)}
        outputs = {name: np.asarray(x) for name, x in evaluation.outputs(Priced(), batch).items()}
        triples.append((ids, batch, outputs))
    scores = evaluation.score(iter(triples), Targets())
    assert scores["sentences"] == 3
    assert abs(scores["bits"] - (3 * 2 + 3 * 1) / 6) < 1e-6 and abs(scores["perplexity"] - 2**1.5) < 1e-5
    assert abs(scores["unigram_perplexity"] - ((13 / 4) * (13 / 2)) ** 0.5) < 1e-9
    assert "unigram model 4.60" in evaluation.summary(scores)
    assert scores["unigram_perplexity"] == unigram_perplexity(Targets(), "test", None)

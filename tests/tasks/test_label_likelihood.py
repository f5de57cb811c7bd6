"""The most probable label of each example, against a search over the labels of a table in float64."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.tasks import glue_metrics
from attention_research.tasks.evaluation_protocol import ReadsOutputs
from attention_research.tasks.label_likelihood import LabelLikelihoodEvaluation
from attention_research.tasks.text_to_text_evaluation import TextToTextEvaluation

EOS, V, EXAMPLES = 2, 9, 11
#: Labels with one to three tokens before the end of the sequence; two of them begin alike.
LABELS = {"arts": [4, EOS], "sports": [5, 6, EOS], "spots": [5, 7, EOS], "weather": [8, 4, 3, EOS]}
#: [example, position, token before, token] log-probabilities.
TABLE = np.log(np.random.default_rng(0).dirichlet(np.ones(V), (EXAMPLES, 5, V)))
TRUTH = [sorted(LABELS)[k] for k in np.random.default_rng(1).integers(0, 4, EXAMPLES)]


class TableModel:
    """log p(y | x) by the table; the source holds the number of the example."""

    def log_likelihood(self, batch, *, key=None):
        target = batch["target"]
        before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)))
        place = batch["source"][:, :1], jnp.arange(target.shape[1])[None], before, target
        return {"log_likelihood": jnp.asarray(TABLE, jnp.float32)[place], "mask": target != 0}, {}


class Data:
    """Examples in batches of any size, in another order than that of their ids; the last batch is filled."""

    name, target_length = "news/mine", 5
    tokenizer = SimpleNamespace(encode=lambda texts: [LABELS[text] for text in texts])

    def text(self, split):
        targets = TRUTH if split == "test" else [*sorted(LABELS), "arts"]
        return [f"source {number}" for number in range(len(targets))], targets

    def evaluation_batches(self, split, batch_size, examples=None):
        order = np.random.default_rng(3).permutation(EXAMPLES)[:examples]
        for start in range(0, len(order), batch_size):
            ids = order[start : start + batch_size]
            filler = batch_size - len(ids)
            source = np.pad(ids[:, None], ((0, filler), (0, 2)))
            yield (
                np.pad(ids, (0, filler), constant_values=-1),
                {"source": source, "target": np.ones((batch_size, 5), int)},
            )


def log_p(example, tokens):
    """The log-likelihood of a sequence: the sum over its tokens, from the table."""
    before = [0, *tokens[:-1]]
    return sum(TABLE[example, t, before[t], token] for t, token in enumerate(tokens))


def scored(evaluation, data=None):
    data, read = data or Data(), jax.jit(lambda batch: evaluation.outputs(TableModel(), batch))
    return evaluation.score(
        [(ids, batch, jax.device_get(read(batch))) for ids, batch in evaluation.batches(data)], data
    )


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_the_prediction_is_the_label_with_the_largest_sum(batch_size):
    said = [max(sorted(LABELS), key=lambda label: log_p(i, LABELS[label])) for i in range(EXAMPLES)]
    by_the_mean = [max(LABELS, key=lambda one: log_p(i, LABELS[one]) / len(LABELS[one])) for i in range(EXAMPLES)]
    assert len(set(said)) > 1 and said != by_the_mean  # a mean over the tokens would predict other labels
    evaluation = LabelLikelihoodEvaluation(metrics=("accuracy", "matthews"), batch_size=batch_size)
    scores = scored(evaluation)
    assert isinstance(evaluation, ReadsOutputs)
    assert scores["accuracy"] == glue_metrics.accuracy(said, TRUTH) > 0
    assert scores["matthews"] == glue_metrics.matthews(said, TRUTH)
    assert scores["score"] == pytest.approx((scores["accuracy"] + scores["matthews"]) / 2)
    assert scores["majority_accuracy"] == 100 * max(map(TRUTH.count, TRUTH)) / EXAMPLES
    assert evaluation.summary(scores).startswith(f"accuracy {scores['accuracy']:.2f} (")


def test_only_the_examples_of_the_split_and_the_labels_that_are_set_count():
    evaluation = LabelLikelihoodEvaluation(examples=5, batch_size=2, labels=("weather", "arts"))
    ids = [one for ids, _ in evaluation.batches(Data()) for one in ids.tolist()]
    kept = np.random.default_rng(3).permutation(EXAMPLES)[:5]
    assert sorted(one for one in ids if one >= 0) == sorted(2 * i + k for i in kept for k in range(2))
    said = {i: max(("weather", "arts"), key=lambda label: log_p(i, LABELS[label])) for i in kept}
    assert scored(evaluation)["accuracy"] == 100 * sum(said[i] == TRUTH[i] for i in kept) / 5


def test_the_first_label_wins_a_tie():
    evaluation = LabelLikelihoodEvaluation(examples=1, labels=("weather", "arts"))
    (example,) = (id for id, _ in zip(np.random.default_rng(3).permutation(EXAMPLES), range(1), strict=False))
    equal = {"log_likelihood": np.array([-1.0, -1.0])}
    found = evaluation.score([(np.array([2 * example, 2 * example + 1]), {}, equal)], Data())
    assert found["accuracy"] == 100 * (TRUTH[example] == "weather")


def test_a_label_that_is_longer_than_a_target_is_refused():
    class Short(Data):
        def evaluation_batches(self, split, batch_size, examples=None):
            for ids, batch in super().evaluation_batches(split, batch_size, examples):
                yield ids, {**batch, "target": batch["target"][:, :3]}

    said = "^config.data.target_length: the label 'weather' has 4 tokens, but a target has at most 3$"
    with pytest.raises(ConfigError, match=said):
        list(LabelLikelihoodEvaluation().batches(Short()))


def test_the_settings_are_checked_as_those_of_generated_labels():
    with pytest.raises(ConfigError, match="one or more different metrics"):
        LabelLikelihoodEvaluation(metrics=())
    with pytest.raises(ConfigError, match="needs the positive label"):
        LabelLikelihoodEvaluation(metrics=("f1",))
    names = [metric.name for metric in LabelLikelihoodEvaluation.metrics]
    assert names == ["accuracy", "f1", "f1_macro", "matthews"]
    assert set(names) < {metric.name for metric in TextToTextEvaluation.metrics}

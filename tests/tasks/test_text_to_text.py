"""T5's loss against float64 NumPy and PyTorch, and the scores of generated texts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sacrebleu
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.embeddings.tied import log_likelihood
from attention_research.registry import lookup
from attention_research.tasks import glue_metrics
from attention_research.tasks.evaluation import corpus_bleu
from attention_research.tasks.rouge import rouge
from attention_research.tasks.text_to_text import TextToText
from attention_research.tasks.text_to_text_evaluation import TextToTextEvaluation
from attention_research.tasks.translation import Translation

V, D, KEY = 29, 12, jax.random.key(0)
TARGET = np.random.default_rng(1).integers(1, V, (3, 7))
TARGET[1, 2:] = TARGET[2, 6:] = 0
BATCH = {"source": jnp.asarray(TARGET[:, :5]), "target": jnp.asarray(TARGET)}
#: Vocabularies with several softmaxes, which do not define Z, and the settings that they need.
WITHOUT_Z = {
    "adaptive_softmax": {"cluster_sizes": (5, 7, 17), "cluster_widths": (12, 5, 3)},
    "mixture_of_softmaxes": {"num_softmaxes": 3},
}


class Linear:
    """logits = hidden @ kernel through the vocabulary's own code, with hidden, kernel and auxiliary losses given."""

    def __init__(self, hidden, kernel, aux=None):
        self.hidden, self.kernel, self.aux = hidden, kernel, aux or {}

    def log_likelihood(self, batch, *, key=None):
        values = log_likelihood(self.hidden, self.kernel, batch["target"])
        return {**values, "mask": batch["target"] != 0}, self.aux


@pytest.fixture(scope="module")
def arrays():
    """hidden [B T D] and a kernel [D V] whose log Z is far from 0."""
    rng = np.random.default_rng(0)
    return 2 * rng.standard_normal((*TARGET.shape, D)), rng.standard_normal((D, V))


def low(arrays):
    return [jnp.asarray(x, jnp.float32) for x in arrays]


@pytest.mark.parametrize("smoothing", [0.0, 0.1], ids=["plain", "smoothed"])
def test_the_loss_is_the_equation(arrays, smoothing):
    """In training (with a key) the loss includes z_loss (log Z)^2, in validation not.

    Both smooth as Mesh TensorFlow.
    """
    logits = arrays[0] @ arrays[1]
    log_z = np.log(np.exp(logits).sum(-1))
    log_p = logits - log_z[..., None]
    wanted = np.full((*TARGET.shape, V), smoothing / V) + (1 - smoothing) * np.eye(V)[TARGET]
    real = TARGET != 0
    cross_entropy = -(wanted * log_p).sum(-1)[real].sum()
    z = 0.01 * np.square(log_z)[real].sum()
    nll = -np.take_along_axis(log_p, TARGET[..., None], -1)[..., 0][real].sum()
    task = TextToText(z_loss=0.01, label_smoothing=smoothing)
    both = jax.jit(lambda *arrays: [task.loss(Linear(*arrays), BATCH, key) for key in (KEY, None)])
    (trained, sums), (validated, plain) = both(*low(arrays))
    assert z > 0.05 * cross_entropy and float(trained) == pytest.approx(cross_entropy + z, rel=1e-5)
    assert float(sums["z_loss"]) == pytest.approx(z, rel=1e-5) and "z_loss" not in plain
    assert float(validated) == pytest.approx(cross_entropy, rel=1e-5)
    assert float(sums["negative_log_likelihood"]) == float(plain["negative_log_likelihood"])
    assert float(plain["negative_log_likelihood"]) == pytest.approx(nll, rel=1e-5)
    assert float(task.count(BATCH)) == real.sum() == 15


@pytest.mark.slow
def test_its_gradient_is_pytorchs_in_float64(arrays, torch):
    hidden, kernel = (torch.tensor(x, requires_grad=True) for x in arrays)
    logits, target = hidden @ kernel, torch.tensor(TARGET)
    each = torch.nn.functional.cross_entropy(logits.reshape(-1, V), target.reshape(-1), reduction="none")
    z = torch.square(torch.logsumexp(logits, -1)).reshape(-1)
    ((each + 0.01 * z)[target.reshape(-1) != 0]).sum().backward()
    with jax.enable_x64(True):
        loss = lambda hidden, kernel: TextToText(z_loss=0.01).loss(Linear(hidden, kernel), BATCH, KEY)[0]
        found = jax.jit(jax.grad(loss, (0, 1)))(*(jnp.asarray(x) for x in arrays))
    for mine, theirs in zip(found, (hidden.grad, kernel.grad), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("key", [KEY, None], ids=["training", "validation"])
def test_without_z_loss_it_is_translation(arrays, key):
    """Bitwise equal, including the layers' auxiliary losses and figures."""
    rows = jnp.asarray([[0.5, 0.25, 1.0]], jnp.float32)
    model = Linear(*low(arrays), {"encoder": {"loss": {"balance": rows}, "metrics": {"dropped": rows}}})
    mine, sums = TextToText(z_loss=0.0, label_smoothing=0.1).loss(model, BATCH, key)
    theirs, expected = Translation(label_smoothing=0.1).loss(model, BATCH, key)
    assert float(mine) == float(theirs) and float(sums.pop("z_loss", 0.0)) == 0.0
    assert {name: float(x) for name, x in sums.items()} == {name: float(x) for name, x in expected.items()}
    assert {"auxiliary_loss", "balance", "dropped"} < sums.keys()


@pytest.mark.parametrize("kind", WITHOUT_Z)
def test_a_vocabulary_without_one_softmax_has_no_z_loss(kind):
    make = lookup("vocabulary", kind)
    sizes = {"vocabulary_size": V, "width": D, "dtype": "float32", **WITHOUT_Z[kind]}

    class Model:
        def log_likelihood(self, batch, *, key=None):
            values = make(**sizes, rngs=nnx.Rngs(0)).log_likelihood(jnp.ones((*TARGET.shape, D)), batch["target"])
            return {**values, "mask": batch["target"] != 0}, {}

    loss, sums = jax.jit(lambda: TextToText(z_loss=0.5).loss(Model(), BATCH, KEY))()
    assert float(loss) == float(sums["negative_log_likelihood"]) > 1 and "z_loss" not in sums


SOURCES = ["q a", "q b", "q c", "q a"]
REFERENCES = ["yes sir", "yes sir", "no", "Yes, sir!"]
HYPOTHESES = ["yes sir", "no", "perhaps", "yes sir"]


def test_the_evaluation_reports_every_metric_and_its_majority_floor():
    evaluation = TextToTextEvaluation(
        metrics=("accuracy", "f1_macro", "matthews", "f1", "exact_match", "token_f1"), positive="yes sir"
    )
    scores = evaluation.score(HYPOTHESES, REFERENCES, SOURCES)
    assert scores["accuracy"] == 25.0 and scores["majority_accuracy"] == 50.0
    assert scores["exact_match"] == pytest.approx(100 / 3)  # "q a" counts once; both references normalise alike
    assert scores["token_f1"] == pytest.approx(100 / 3) and scores["majority_token_f1"] == pytest.approx(200 / 3)
    assert scores["f1_macro"] == glue_metrics.f1_macro(HYPOTHESES, REFERENCES) and scores["majority_matthews"] == 0.0
    assert scores["matthews"] == glue_metrics.matthews(HYPOTHESES, REFERENCES)
    assert scores["f1"] == glue_metrics.f1(HYPOTHESES, REFERENCES, "yes sir") > 0
    assert scores["score"] == pytest.approx(np.mean([scores[metric] for metric in evaluation.chosen]))
    assert evaluation.summary(scores).startswith("accuracy 25.00 (50.00) · f1_macro ")


def test_labels_and_numbers():
    every = TextToTextEvaluation(metrics=("f1_macro", "matthews"), labels=("yes sir", "no", "perhaps", "Yes, sir!"))
    found = every.score(HYPOTHESES, REFERENCES, SOURCES)
    assert found["f1_macro"] == glue_metrics.f1_macro(HYPOTHESES, REFERENCES, every.labels)
    assert found["f1_macro"] < glue_metrics.f1_macro(HYPOTHESES, REFERENCES)
    numbers = TextToTextEvaluation(metrics=("pearson", "spearman"))
    found = numbers.score(["1.0", "2.0", "9.0"], ["0.2", "0.4", "0.6"], ["", "", ""])
    assert found["spearman"] == pytest.approx(100.0) and 0 < found["pearson"] < 99
    assert found["majority_pearson"] == found["majority_spearman"] == 0.0


def test_generated_texts_have_bleu_and_rouge_with_their_signatures():
    said, true = ["the cat sat on the mat today", "a dog ran"], ["the cat sat on a mat yesterday", "the dog ran off"]
    evaluation = TextToTextEvaluation(metrics=("rouge1", "rouge2", "rougeL", "bleu"))
    scores = evaluation.score(said, true, true)
    assert scores["bleu"] == sacrebleu.corpus_bleu(said, [true]).score > 1 and scores["copy_bleu"] == pytest.approx(100)
    assert scores["signature"] == corpus_bleu(said, true)[1] and "stemmer:no" in scores["rouge_signature"]
    # Of 7 and 7 words, 5 are in both, and of 6 and 6 bigrams, 3. Of 3 and 4 words, 2 are in both, and of 2 and 3
    # bigrams, 1.
    assert scores["rouge1"] == scores["rougeL"] == pytest.approx(50 * (2 * 5 / 14 + 2 * 2 / 7))
    assert scores["rouge2"] == pytest.approx(50 * (2 * 3 / 12 + 2 * 1 / 5))
    assert rouge(["sat cats"], ["cat sat"], "rouge1") == 50.0 and rouge([], [], "rouge1") == 0.0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ConfigError, match="evaluation.positive: the metric f1 needs the positive label"):
        TextToTextEvaluation(metrics=("f1",))
    for metrics in ((), ("bleu", "bleu")):
        with pytest.raises(ConfigError, match="evaluation.metrics: expected one or more different metrics"):
            TextToTextEvaluation(metrics=metrics)

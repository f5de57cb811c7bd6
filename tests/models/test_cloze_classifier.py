"""The cloze classifier: its equation in float64 NumPy, the language model's parameters, padding and batch order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError, build_model
from attention_research.layers.structure import abstract

V, C = 23, 3
TOKENS = np.array([[5, 9, 11, 4, 2], [7, 8, 2, 0, 0]], np.int32)


def maker(kind, **settings):
    model = {"kind": kind, "width": 12, "num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 17},
             "dropout_rate": 0.0, **settings}  # fmt: skip
    made = build_model(model, max_length=5, vocabulary_size=V)
    return lambda rngs: made(rngs=rngs)


@pytest.fixture(scope="module")
def model():
    return jax.jit(lambda: maker("cloze_classifier", num_classes=C)(nnx.Rngs(1)))()


@pytest.mark.slow
def test_a_class_is_a_token_scored_by_the_mean_state(model):
    tokens = jnp.asarray(TOKENS)
    both = jax.jit(lambda tokens: (model.log_probabilities({"source": tokens}), model.encode({"tokens": tokens})))
    (found, aux), memory = both(tokens)
    hidden = np.asarray(memory["hidden"], np.float64)
    table = np.asarray(model.vocabulary.table[...], np.float64)
    for row, length in enumerate((5, 3)):
        scores = table[[V - 2 - number for number in range(C)]] @ hidden[row, :length].mean(axis=0)
        np.testing.assert_allclose(found[row], scores - np.log(np.exp(scores).sum()), atol=1e-5)
        np.testing.assert_allclose(
            aux["pooling"]["weights"][row], [1 / length] * length + [0] * (5 - length), atol=1e-6
        )


@pytest.mark.slow
def test_its_parameters_are_the_language_models(model):
    ours, theirs = (abstract(maker(kind))[1] for kind in ("cloze_classifier", "transformer_encoder"))
    assert {name: x.shape for name, x in ours.items()} == {name: x.shape for name, x in theirs.items()}


@pytest.mark.slow
def test_padding_and_the_order_of_the_batch_do_not_matter(model):
    run = jax.jit(lambda tokens: model.log_probabilities({"source": tokens})[0])
    both, short = run(jnp.asarray(TOKENS)), run(jnp.asarray(TOKENS[1:, :3]))
    np.testing.assert_allclose(both[1], short[0], atol=1e-5)
    np.testing.assert_allclose(run(jnp.asarray(TOKENS[::-1]))[::-1], both, atol=1e-5)


def test_more_classes_than_tokens_are_refused():
    with pytest.raises(ConfigError, match="model.num_classes: a vocabulary of 23 tokens is too small for 22 classes"):
        maker("cloze_classifier", num_classes=22)(nnx.Rngs(0))

"""The text classifier's poolings against the equations in float64 NumPy, and properties of all poolings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.embeddings.from_file import FileEmbedding
from attention_research.layers.embeddings.learned import LearnedEmbedding
from attention_research.layers.embeddings.random_frozen import RandomFrozenEmbedding
from attention_research.layers.structure import abstract, split
from attention_research.models.classifiers.text_classifier import TextClassifier
from attention_research.registry import FAMILIES, lookup
from attention_research.signatures import Constructor
from tests.tiers import fast_are

V, D, C, N, S = 19, 5, 3, 11, 7
POOLINGS = tuple(FAMILIES["pooling"])
SETTINGS = {
    "token_weight": {"vocabulary_size": V},
    "bidirectional_recurrent": {"cell": Constructor(lookup("recurrent_cell", "gru"), {"width": 3})},
}
FREQUENCY = np.minimum(np.arange(V), N)  # term t occurs in t texts, terms from 11 on in all


def batch_of(rng):
    """Four texts of 7, 4, 2 and 1 tokens, with a repeated token in the first two."""
    tokens = rng.integers(4, V, (4, S))
    tokens[:, 0] = 5, 7, 6, 9  # at least one token that is not in all texts
    tokens[0, 5], tokens[1, 2] = tokens[0, 0], tokens[1, 0]
    for row, length in enumerate((7, 4, 2, 1)):
        tokens[row, length:] = 0
    frequency = FREQUENCY[tokens]
    return {name: jnp.asarray(x, jnp.int32) for name, x in
            {"source": tokens, "document_frequency": frequency, "documents": np.full(4, N)}.items()}  # fmt: skip


def built(kind, **settings):
    embedding = Constructor(LearnedEmbedding, {"vocabulary_size": V, "width": D, "scale": 2.0, "dtype": "float32"})
    pooling = Constructor(lookup("pooling", kind), SETTINGS.get(kind, {}) | settings)
    model = TextClassifier(vocabulary_size=V, width=D, num_classes=C, embedding=embedding, pooling=pooling,
                           rngs=nnx.Rngs(3))  # fmt: skip
    if kind == "token_weight":
        model.pooling.weight[...] = jnp.asarray(np.random.default_rng(8).normal(size=V), jnp.float32)
    return model


@pytest.fixture(scope="module")
def batch():
    return batch_of(np.random.default_rng(4))


#: Poolings whose equation is tested in their own test: the recurrent one below, the set's in tests/layers.
OWN_TESTS = ("bidirectional_recurrent", "pma")


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(kind, model, ids):
    """(document vector, weights) of one text, by the equations."""
    table = np.asarray(model.embedding.table[...], np.float64)
    x, idf, tf = table[ids], np.log(N / FREQUENCY[ids]), np.asarray([np.sum(ids == one) for one in ids])
    array = lambda parameter: np.asarray(parameter[...], np.float64)
    if kind in ("mean", "idf", "tf_idf"):
        weights = {"mean": np.ones(len(ids)), "idf": idf, "tf_idf": tf * idf}[kind]
        return weights @ x / weights.sum(), weights / weights.sum()
    if kind == "token_weight":
        weights = softmax(array(model.pooling.weight)[ids])
        return weights @ x, weights
    if kind == "query":
        hidden = np.tanh(x @ array(model.pooling.hidden.kernel) + array(model.pooling.hidden.bias))
        weights = softmax(hidden @ array(model.pooling.query))
        return weights @ x, weights
    q, k, v = (x @ array(getattr(model.pooling, name).kernel) for name in ("query", "key", "value")) \
        if kind == "qkv" else (x, x, x)  # fmt: skip
    attention = softmax(q @ k.T / (np.sqrt(D) if kind == "qkv" else 1.0))
    return (attention @ v).mean(axis=0), attention.mean(axis=0)


@pytest.mark.parametrize("kind", [kind for kind in POOLINGS if kind not in OWN_TESTS])
def test_a_pooling_is_its_equation(kind, batch):
    model = built(kind)
    log_p, aux = jax.jit(model.log_probabilities)(batch)
    head = np.asarray(model.head.kernel[...], np.float64)
    for row, tokens in enumerate(np.asarray(batch["source"])):
        vector, weights = reference(kind, model, tokens[tokens != 0])
        expected = np.log(softmax(vector @ head))
        assert np.allclose(log_p[row], expected, atol=3e-6), kind
        assert np.allclose(aux["pooling"]["weights"][row, : len(weights)], weights, atol=1e-6)


def test_idf_over_occurrences_is_tf_idf_over_distinct_terms(batch):
    """The vector before division by the weights' sum: the sum over distinct terms of tf log(N / df) e."""
    model = built("idf")
    table = np.asarray(model.embedding.table[...], np.float64)
    ids = np.asarray(batch["source"])[0]
    terms, counts = np.unique(ids, return_counts=True)
    assert counts.max() > 1
    weights = counts * np.log(N / FREQUENCY[terms])
    assert np.allclose(reference("idf", model, ids)[0], weights @ table[terms] / weights.sum())


def test_tokens_of_all_texts_have_weight_zero_and_alone_give_zero(batch):
    everywhere = {**batch, "document_frequency": jnp.where(batch["source"] == 0, 0, N)}
    model = built("idf")
    log_p, aux = jax.jit(model.log_probabilities)(everywhere)
    assert np.all(aux["pooling"]["weights"] == 0) and np.allclose(log_p, -np.log(C))


def test_sigmoid_weights_are_divided_by_their_sum(batch):
    model = built("token_weight", normalization="sigmoid")
    _, aux = jax.jit(model.log_probabilities)(batch)
    ids = np.asarray(batch["source"])[1, :4]
    weights = 1 / (1 + np.exp(-np.asarray(model.pooling.weight[...], np.float64)[ids]))
    assert np.allclose(aux["pooling"]["weights"][1, :4], weights / weights.sum(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("summary", ["mean", "last"])
def test_the_recurrent_summary_is_pytorchs_packed_bidirectional_gru(summary, batch, torch):
    model = built("bidirectional_recurrent", summary=summary)
    theirs = torch.nn.GRU(D, 3, batch_first=True, bidirectional=True)
    for cell, suffix in ((model.pooling.forward_cell, ""), (model.pooling.backward_cell, "_reverse")):
        bias = np.random.default_rng(2).normal(size=(2, 9)).astype(np.float32)
        bias[1, :6] = 0  # ours has a bias of the state only inside the reset gate
        cell.input_bias[...], cell.state_bias[...] = jnp.asarray(bias[0]), jnp.asarray(bias[1, 6:])
        given = {
            f"weight_ih_l0{suffix}": np.asarray(cell.input_kernel[...]).T,
            f"weight_hh_l0{suffix}": np.asarray(cell.state_kernel[...]).T,
            f"bias_ih_l0{suffix}": bias[0],
            f"bias_hh_l0{suffix}": bias[1],
        }
        for name, value in given.items():
            getattr(theirs, name).data = torch.tensor(np.array(value))
    tokens = np.asarray(batch["source"])
    lengths = (tokens != 0).sum(axis=1)
    x = torch.tensor(np.asarray(model.embedding(batch["source"])))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.tolist(), batch_first=True)
    outputs, last = theirs(packed)
    outputs = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0].detach().numpy()
    ends = last.detach().numpy().swapaxes(0, 1).reshape(4, 6)
    expected = ends if summary == "last" else outputs.sum(axis=1) / lengths[:, None]
    vector, aux = model.pooling(model.embedding(batch["source"]), batch, batch["source"] != 0)
    assert np.allclose(vector, expected, atol=2e-6)
    assert np.allclose(aux["weights"].sum(axis=1), 1)


@pytest.mark.parametrize("kind", fast_are(["self_attention"], list(POOLINGS)))
def test_padding_does_not_change_values_weights_and_gradients(kind, batch):
    model = built(kind)
    structure, parameters, statistics = split(model)
    rows = jnp.asarray(np.arange(4 * C).reshape(4, C), jnp.float32)

    @jax.jit
    def values(parameters, batch):
        def total(parameters):
            log_p, aux = structure.merge(parameters, statistics).log_probabilities(batch)
            return jnp.sum(log_p * rows), (log_p, aux["pooling"]["weights"])

        (_, found), gradients = jax.value_and_grad(total, has_aux=True)(parameters)
        return *found, gradients

    log_p, weights, gradients = values(parameters, batch)
    longer = {**batch, **{name: jnp.pad(batch[name], ((0, 0), (0, 4))) for name in ("source", "document_frequency")}}
    other = values(parameters, longer)
    assert np.allclose(log_p, other[0], atol=1e-6) and np.allclose(weights, other[1][:, :S], atol=1e-6)
    assert np.all(np.asarray(other[1])[:, S:] == 0) and np.allclose(weights.sum(axis=1), 1, atol=1e-6)
    assert np.all(np.asarray(gradients["embedding.table"])[0] == 0)
    for name, gradient in gradients.items():
        assert np.abs(gradient).max() > 0, f"{name} has no gradient"
        assert np.allclose(gradient, other[2][name], atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in POOLINGS if kind != "bidirectional_recurrent"])
def test_without_positions_word_order_does_not_matter(kind, batch):
    order = jnp.asarray([3, 0, 6, 2, 5, 1, 4])
    first = {name: x[:1] for name, x in batch.items()}
    shuffled = {name: x[:, order] if x.ndim == 2 else x for name, x in first.items()}
    model = built(kind)
    run = jax.jit(model.log_probabilities)
    (log_p, aux), (again, moved) = run(first), run(shuffled)
    assert np.allclose(log_p, again, atol=1e-6)
    assert np.allclose(aux["pooling"]["weights"][:, order], moved["pooling"]["weights"], atol=1e-6)


def test_attention_to_unlike_tokens_needs_queries_and_keys():
    """For two orthogonal embeddings of equal length, X X^T attends most to the token itself, Q K^T to the other."""
    x = jnp.asarray([[[3.0, 0.0], [0.0, 3.0]]])
    batch, real = {"source": jnp.asarray([[4, 5]])}, jnp.ones((1, 2), bool)
    basic = lookup("pooling", "self_attention")(input_width=2, rngs=nnx.Rngs(0))
    learned = lookup("pooling", "qkv")(input_width=2, rngs=nnx.Rngs(0))
    learned.query.kernel[...], learned.key.kernel[...] = jnp.eye(2)[::-1], jnp.eye(2)
    learned.value.kernel[...] = jnp.asarray([[1.0, 0.0], [0.0, 0.0]])  # keeps the first token only
    only_first = x * jnp.asarray([1.0, 0.0])
    scores = np.asarray(jnp.einsum("bsd,btd->bst", x, x))[0]
    assert scores[0, 0] > scores[0, 1]
    run = jax.jit(lambda pooling, x: pooling(x, batch, real))
    assert np.allclose(run(basic, x)[0], 1.5)  # each token attends to itself
    _, aux = run(learned, x)
    assert np.allclose(aux["weights"], 0.5)
    first, _ = run(learned, only_first)
    assert first[0, 0] > 0 and first[0, 1] == 0


def test_a_frozen_table_is_not_a_parameter():
    settings = {"vocabulary_size": V, "width": D, "scale": 2.0, "dtype": "float32"}
    _, parameters, statistics = split(RandomFrozenEmbedding(**settings, rngs=nnx.Rngs(0)))
    assert list(statistics) == ["table"] and not parameters
    length = np.linalg.norm(np.asarray(statistics["table"]), axis=1)
    assert 1.0 < length.mean() < 3.0


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "trained"])
def test_a_table_from_a_file_is_read_when_parameters_are_made(tmp_path, frozen):
    file, table = tmp_path / "table.npy", np.random.default_rng(1).normal(size=(V - 2, D))
    make = lambda rngs: FileEmbedding(
        file=str(file), frozen=frozen, vocabulary_size=V, width=D, dtype="float32", rngs=rngs
    )
    _, parameters, statistics = abstract(make)  # counting does not read the file
    np.save(file, table)
    found = jax.jit(lambda: make(nnx.Rngs(0)))()
    rows = np.asarray(found(jnp.asarray([0, V - 3, V - 1])))
    assert {**parameters, **statistics}["table"].shape == (V, D)
    assert np.allclose(rows, [table[0], table[-1], np.zeros(D)])
    assert list(parameters) == ([] if frozen else ["table"])
    np.save(file, table[:, :-1])
    with pytest.raises(Exception, match="rows of width 5"):
        jax.block_until_ready(jax.jit(lambda: make(nnx.Rngs(0)))().table[...])

"""The recurrent language model: PyTorch as oracle, steps against the full pass, causality, dropout, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.structure import split
from attention_research.models.recurrent_language_model import RecurrentLanguageModel
from attention_research.registry import lookup
from attention_research.signatures import Constructor
from attention_research.tokens import BOS

B, T, V, D, L = 3, 7, 19, 5, 2
CELLS = {"lstm": ("LSTM", 4), "gru": ("GRU", 3), "vanilla": ("RNN", 1)}


def built(cell="lstm", vocabulary="untied", dtype="float32"):
    """(structure, parameters): normal with deviation 0.4, so that a missing bias is noticed."""
    owner = partial(lookup("vocabulary", vocabulary), vocabulary_size=V, width=D, dtype=dtype)
    model = RecurrentLanguageModel(
        vocabulary_size=V, max_length=T, width=D, num_layers=L, dropout_rate=0.3, dtype=dtype,
        cell=Constructor(lookup("recurrent_cell", cell), {"width": D}), vocabulary=owner,
        initialization=lookup("initialization", "as_built"), rngs=nnx.Rngs(0),
    )  # fmt: skip
    structure, parameters, _ = split(model)
    rng = np.random.default_rng(1)
    return structure, {name: jnp.asarray(0.4 * rng.standard_normal(x.shape), x.dtype) for name, x in parameters.items()}


@pytest.fixture(scope="module")
def target():
    tokens = np.random.default_rng(2).integers(4, V, (B, T))
    tokens[1, 5:], tokens[2, 3:] = 0, 0
    return tokens


def loss(structure, parameters, target, key=None):
    values, _ = structure.merge(parameters).log_likelihood({"target": target}, key=key)
    return -jnp.sum(values["log_likelihood"], where=values["mask"])


@pytest.fixture(scope="module")
def ours(target):
    """(cell, vocabulary) -> (parameters, loss, gradients), each compiled once."""
    found = {}

    def of(cell, vocabulary):
        if (cell, vocabulary) not in found:
            structure, parameters = built(cell, vocabulary)
            value, gradients = jax.jit(jax.value_and_grad(partial(loss, structure)))(parameters, jnp.asarray(target))
            found[cell, vocabulary] = parameters, value, gradients
        return found[cell, vocabulary]

    return of


CASES = [("lstm", "untied"), ("lstm", "shared"), ("gru", "untied"), ("vanilla", "shared_with_bias")]


@pytest.mark.parametrize(("cell", "vocabulary"), CASES)
def test_loss_and_gradients_are_those_of_pytorch(cell, vocabulary, ours, target, torch):
    parameters, value, gradients = ours(cell, vocabulary)
    kind, gates = CELLS[cell]
    leaf = {name: torch.tensor(np.asarray(x, np.float64), requires_grad=True) for name, x in parameters.items()}
    network = getattr(torch.nn, kind)(D, D, L, batch_first=True).double()
    weights = {}
    for layer in range(L):
        of = lambda name, layer=layer: leaf[f"layers.cells.{layer}.{name}"]
        inner = torch.zeros(gates * D, dtype=torch.float64)
        if cell == "gru":
            inner = torch.cat([torch.zeros(2 * D, dtype=torch.float64), of("state_bias")])
        weights |= {
            f"weight_ih_l{layer}": of("input_kernel").T, f"weight_hh_l{layer}": of("state_kernel").T,
            f"bias_ih_l{layer}": of("input_bias" if cell == "gru" else "bias"), f"bias_hh_l{layer}": inner,
        }  # fmt: skip
    tokens = torch.tensor(target)
    read = torch.cat([torch.full((B, 1), BOS), tokens[:, :-1]], 1)
    x = torch.nn.functional.embedding(read, leaf["vocabulary.table"]) * D**0.5
    hidden, _ = torch.func.functional_call(network, weights, (x,))
    kernel = leaf.get("vocabulary.output_kernel", leaf["vocabulary.table"].T)
    bias = leaf.get("vocabulary.output_bias", leaf.get("vocabulary.bias", torch.zeros(V, dtype=torch.float64)))
    log_p = torch.log_softmax(hidden @ kernel + bias, -1)
    want = -log_p.gather(-1, tokens[..., None])[..., 0][tokens != 0].sum()
    want.backward()
    np.testing.assert_allclose(value, want.item(), rtol=1e-5)
    for name, x in leaf.items():
        np.testing.assert_allclose(gradients[name], x.grad.numpy(), atol=1e-4, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(("cell", "vocabulary"), CASES)
def test_every_parameter_is_alive(cell, vocabulary, ours):
    _, _, gradients = ours(cell, vocabulary)
    assert {name for name, x in gradients.items() if not np.any(np.asarray(x))} == set()


@pytest.mark.parametrize("cell", ["lstm", "gru_reset_before"])
def test_steps_equal_the_full_forward(cell, target):
    structure, parameters = built(cell)

    @jax.jit
    def both(parameters, target):
        model = structure.merge(parameters)
        values, _ = model.log_likelihood({"target": target})
        cache, last, prices = model.start(B), jnp.full(B, BOS), []
        for t in range(T):
            cache, log_p, _ = model.step(cache, last)
            last = target[:, t]
            prices.append(jnp.take_along_axis(log_p, last[:, None], 1)[:, 0])
        return values, jnp.stack(prices, 1)

    values, prices = both(parameters, jnp.asarray(target))
    real = np.asarray(values["mask"])
    assert real.sum() == (target != 0).sum()
    np.testing.assert_allclose(np.asarray(prices)[real], np.asarray(values["log_likelihood"])[real], atol=1e-5)


def test_scores_depend_on_earlier_tokens_only(target):
    structure, parameters = built()
    priced = jax.jit(lambda t: structure.merge(parameters).log_likelihood({"target": t})[0]["log_likelihood"])
    changed = target.copy()
    changed[0, 4] = (target[0, 4] - 3) % (V - 4) + 4
    before, after = np.asarray(priced(jnp.asarray(target))), np.asarray(priced(jnp.asarray(changed)))
    np.testing.assert_array_equal(before[0, :4], after[0, :4])
    assert np.all(before[0, 4:] != after[0, 4:])


@pytest.mark.slow
def test_dropout_needs_a_key_and_differs_by_key(target):
    structure, parameters = built()
    priced = jax.jit(partial(loss, structure))
    keys = jax.random.split(jax.random.key(0), 2)
    first, again, other = (float(priced(parameters, jnp.asarray(target), keys[i])) for i in (0, 0, 1))
    assert first == again != other and float(priced(parameters, jnp.asarray(target))) not in (first, other)


def test_bfloat16_computes_in_bfloat16(target):
    structure, parameters = built(dtype="bfloat16")
    assert {x.dtype for x in parameters.values()} == {jnp.dtype("float32")}
    cache, log_p, _ = jax.eval_shape(lambda: structure.merge(parameters).step(
        structure.merge(parameters).start(B), jnp.zeros(B, jnp.int32)))  # fmt: skip
    assert {x.dtype for x in jax.tree.leaves(cache)} == {jnp.dtype("bfloat16")} and log_p.dtype == jnp.float32


def test_packed_and_too_long_rows_are_refused(target):
    structure, parameters = built()
    model, tokens = structure.merge(parameters), jnp.asarray(target)
    with pytest.raises(ValueError, match="would carry over between their texts"):
        model.log_likelihood({"target": tokens, "target_segments": tokens, "target_positions": tokens})
    with pytest.raises(ValueError, match="max_length is 7"):
        model.log_likelihood({"target": jnp.pad(tokens, ((0, 0), (0, 1)))})

"""Oracle: RNNsearch in idiomatic PyTorch (`benchmarks/_torch_rnnsearch.py`), with our weights and padding."""

import jax
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.layers.structure import abstract

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")

from benchmarks._torch_rnnsearch import RNNsearch  # noqa: E402

B, S, T, D, V = 3, 7, 5, 12, 23


@pytest.fixture(scope="module")
def model():
    """(structure, random parameters)."""
    section = {
        "kind": "recurrent", "width": D, "embedding_width": D, "cell": {"kind": "gru"},
        "encoder": {"kind": "bidirectional"}, "decoder": {"kind": "bahdanau", "readout_width": 5},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 11}},
    }  # fmt: skip
    constructor = build_model(section, max_length=11, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    random = np.random.default_rng(0)
    return structure, {name: random.standard_normal(p.shape).astype(np.float32) * 0.4 for name, p in shapes.items()}


def rows(length, lengths, seed):
    ids = np.random.default_rng(seed).integers(4, V, (B, length)).astype(np.int32)
    return np.where(np.arange(length) < np.array(lengths)[:, None], ids, 0)


def test_loss_and_gradients_are_pytorchs(model):
    structure, parameters = model
    source, target = rows(S, (4, 7, 2), 1), rows(T, (5, 1, 3), 2)

    @jax.jit
    def loss(parameters):
        batch = {"source": jax.numpy.asarray(source), "target": jax.numpy.asarray(target)}
        values, aux = structure.merge(parameters).log_likelihood(batch)
        assert aux["decoder"]["alignment"].shape == (B, T, S)
        return -values["log_likelihood"].sum(where=values["mask"]) / float((target != 0).sum())

    theirs = RNNsearch(parameters)
    wanted = theirs(torch.from_numpy(source).long(), torch.from_numpy(target).long())
    wanted.backward()
    value, gradients = jax.value_and_grad(loss)(parameters)
    assert abs(float(value) - float(wanted.detach())) < 1e-5
    same_layout = {
        "vocabulary.source_table": theirs.source, "vocabulary.target_table": theirs.target,
        "vocabulary.output_kernel": theirs.output, "vocabulary.output_bias": theirs.output_bias,
        "decoder.alignment.score.query_weight": theirs.query, "decoder.alignment.score.key_weight": theirs.key,
        "decoder.alignment.score.v": theirs.v,
    }  # fmt: skip
    found = {name: parameter.grad.numpy() for name, parameter in same_layout.items()}
    transposed = {
        "encoder.forward.0.input_kernel": theirs.encoder.weight_ih_l0,
        "encoder.backward.0.state_kernel": theirs.encoder.weight_hh_l0_reverse,
        "decoder.layers.cells.0.input_kernel": theirs.cell.weight_ih,
        "decoder.layers.cells.0.state_kernel": theirs.cell.weight_hh,
        "decoder.start_state.linear.0.0.kernel": theirs.first.weight,
        "decoder.from_context.kernel": theirs.from_context.weight,
    }
    found.update({name: parameter.grad.numpy().T for name, parameter in transposed.items()})
    for name, gradient in found.items():
        assert np.any(gradient), name
        np.testing.assert_allclose(gradients[name], gradient, atol=1e-5, rtol=1e-4, err_msg=name)

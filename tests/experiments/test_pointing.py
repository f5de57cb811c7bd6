"""Pointing by loops, a removed head against a head with zero context, predicted words against likelihoods."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_transformer import small_transformer

from attention_research.data.blanks import LINKS
from attention_research.experiments.lectures.heads.pointing import accuracy, pointing, without_head

LINKED = [{"syntax": (4, 1), "entity": (5, 0), "local": (6, 7)}, {"syntax": (3, 1), "entity": (4, 0), "local": (5, 6)}]


@pytest.mark.parametrize("written", [False, True])
def test_pointing_is_counted_row_by_row(written):
    rng = np.random.default_rng(0)
    maps = [rng.dirichlet(np.ones(8), (2, 3, 8)), rng.dirichlet(np.ones(7), (2, 3, 7))]
    found = pointing(maps, LINKED, written=written)
    for number, link in enumerate(LINKS):
        for l, n in np.ndindex(2, 3):
            rows = [one[l, n, number if written else gold[link][0]] for one, gold in zip(maps, LINKED, strict=True)]
            at = [gold[link][1] for gold in LINKED]
            right = np.mean([int(np.argmax(row) == place) for row, place in zip(rows, at, strict=True)])
            assert found[link]["accuracy"][l, n] == right
            mass = np.mean([row[place] for row, place in zip(rows, at, strict=True)])
            np.testing.assert_allclose(found[link]["mass"][l, n], mass)


@pytest.fixture(scope="module")
def made():
    structure, (parameters, _) = small_transformer()
    rng = np.random.default_rng(3)
    batch = {name: jnp.asarray(rng.integers(4, 29, (6, 5)), jnp.int32) for name in ("source", "target")}
    return structure, parameters, batch


def test_removing_a_head_zeroes_its_output_weights(made):
    structure, parameters, batch = made
    name = "encoder.stack.segments.0.self_attention.output.kernel"
    assert parameters[name].shape[1] == 12  # three heads of four
    changed = without_head(parameters, name, 1, 2, 3)
    kernel = np.array(parameters[name])
    assert np.array_equal(changed[name][0], kernel[0]) and np.array_equal(changed[name][1, :8], kernel[1, :8])
    assert (changed[name][1, 8:] == 0).all() and not (kernel[1, 8:] == 0).any()
    hidden = lambda p: jax.jit(lambda p: structure.merge(p).encode({"tokens": batch["source"]})["hidden"])(p)
    assert float(jnp.abs(hidden(changed) - hidden(parameters)).max()) > 1e-3


@pytest.mark.slow
def test_predicted_words_have_the_largest_likelihood(made):
    structure, parameters, batch = made
    data = SimpleNamespace(evaluation_batches=lambda *_, **__: [(np.array([0, 1, 2, 3, 4, -1]), batch)])
    trained = SimpleNamespace(trainer=SimpleNamespace(structure=structure), data=data)
    found = accuracy(trained, examples=None)((parameters, {}))
    likelihood = jax.jit(lambda target: structure.merge(parameters).log_likelihood({**batch, "target": target})[0])
    for number, link in enumerate(LINKS):
        every = np.stack([
            likelihood(batch["target"].at[:, number].set(token))["log_likelihood"][:, number] for token in range(1, 29)
        ])  # fmt: skip
        right = 1 + every.argmax(axis=0) == np.asarray(batch["target"][:, number])
        assert found[link] == pytest.approx(right[:5].mean())

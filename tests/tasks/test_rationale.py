"""The rationale task: its terms by hand, its gradient against the exact expectation, and its scores."""

from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.recurrent.rcnn import RCNNCell
from attention_research.layers.structure import abstract
from attention_research.models.rationales.independent import IndependentGenerator
from attention_research.models.rationales.rationale import Rationale as Model
from attention_research.models.rationales.sequential import SequentialGenerator
from attention_research.signatures import Constructor
from attention_research.tasks.rationale import Rationale
from attention_research.tasks.rationale_evaluation import SHARES, RationaleEvaluation, scores

SOURCE = np.array([[5, 4, 6, 7], [6, 5, 5, 0], [0, 0, 0, 0]], np.int32)
RATINGS = np.array([[0.25, 1.0], [0.5, 0.0], [0.0, 0.0]], np.float32)
BATCH = {"source": jnp.asarray(SOURCE), "ratings": jnp.asarray(RATINGS)}
SELECTED = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
SAID = np.array([[0.5, 0.5], [0.5, 0.25], [0.9, 0.9]], np.float32)


def read(log_p):
    return {"ratings": jnp.asarray(SAID), "selected": jnp.asarray(SELECTED), "log_probability": log_p}


def test_the_cost_by_hand():
    """Row 1: 1/16 + 1/4, three words, two switches. Row 2: 1/16, two words, one switch. Row 3 is padding."""
    task = Rationale(sparsity=0.01, coherence=0.1)
    total, sums = task.of_choice(read(jnp.full((3, 4), -0.7)), BATCH)
    assert sums == {"squared_error": 0.375, "selected": 5.0, "switches": 3.0}
    assert float(total) == pytest.approx(0.375 + 0.05 + 0.3) and float(task.count(BATCH)) == 2
    empty = {name: jnp.zeros_like(x) for name, x in BATCH.items()}
    assert float(task.count(empty)) == 1
    labelled = {"source": BATCH["source"], "label": jnp.array([1, 0, -1])}
    one = {**read(jnp.zeros((3, 4))), "ratings": jnp.asarray(SAID[:, :1])}
    assert float(task.of_choice(one, labelled)[1]["squared_error"]) == 0.5
    with pytest.raises(ConfigError, match=r"^config\.model\.num_ratings: expected 2, the number of .*; got 1$"):
        task.of_choice(one, BATCH)


@pytest.mark.parametrize("baseline", ["none", "batch_mean"])
def test_the_surrogate_has_the_weights_of_the_costs(baseline):
    """d loss / d log p(z_t) is the review's cost, or its difference from the other review's cost.

    In padding it is 0.
    """
    task = Rationale(sparsity=0.01, coherence=0.1, baseline=baseline)
    gradient = jax.grad(lambda log_p: task.of_choice(read(log_p), BATCH)[0])(jnp.full((3, 4), -0.7))
    costs = np.array([0.3125 + 0.03 + 0.2, 0.0625 + 0.02 + 0.1])
    weights = costs if baseline == "none" else costs - costs[::-1]
    np.testing.assert_allclose(gradient, np.where(SOURCE != 0, np.append(weights, 0)[:, None], 0), rtol=1e-6)


def made(generator):
    """(merge, parameters in float64) of a small model."""
    cell = Constructor(RCNNCell, {"width": 3})
    settings = {"cell": cell, "choices": Constructor(RCNNCell, {"width": 2})}
    chooser = Constructor(generator, settings if generator is SequentialGenerator else {"cell": cell})
    sizes = {"vocabulary_size": 8, "width": 3, "embedding_width": 2, "num_layers": 1, "num_ratings": 2}
    structure, shapes, _ = abstract(
        lambda rngs: Model(**sizes, dropout_rate=0.0, cell=cell, generator=chooser, rngs=rngs)
    )
    rng = np.random.default_rng(4)
    return structure.merge, {name: rng.standard_normal(x.shape) for name, x in sorted(shapes.items())}


def expected_cost(merge, parameters, source, ratings, choices):
    """sum_z p(z) cost(z) over all choices of one review: the paper's equations without sampling or surrogate."""
    model, rows, choices = merge(parameters), len(choices), jnp.asarray(choices)
    source = jnp.repeat(source[None], rows, axis=0)
    x = model.embedding[...][source]
    scores, _ = model.generator(x, source != 0, selected=choices)
    odds = jnp.where(choices, jax.nn.sigmoid(scores), 1 - jax.nn.sigmoid(scores))
    probability = jnp.prod(jnp.where(source != 0, odds, 1.0), axis=1)
    said = jax.nn.sigmoid(model.output(model.encoder(x, choices)[1]))
    words = choices.sum(axis=1).astype(jnp.float64)
    switches = jnp.where(source[:, 1:] != 0, jnp.abs(jnp.diff(choices.astype(jnp.int32), axis=1)), 0)
    cost = jnp.sum((said - ratings) ** 2, axis=1) + 0.01 * words + 0.1 * switches.sum(axis=1).astype(jnp.float64)
    return jnp.sum(probability * cost)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generator", "baseline"),
    [(IndependentGenerator, "none"), pytest.param(SequentialGenerator, "batch_mean", marks=pytest.mark.slow)],
    ids=["independent", "sequential, batch mean"],
)
def test_the_mean_of_the_gradients_is_that_of_the_exact_expectation(generator, baseline):
    """Both reviews, all 16 x 8 pairs of choices weighted by their probability, in float64 to 1e-9."""
    with jax.enable_x64():
        merge, parameters = made(generator)
        parameters = {name: jnp.asarray(x) for name, x in parameters.items()}
        batch = {"source": jnp.asarray(SOURCE), "ratings": jnp.asarray(RATINGS, jnp.float64)}
        task = Rationale(sparsity=0.01, coherence=0.1, baseline=baseline)
        all_ = [np.array([z for z in product((False, True), repeat=4) if not any(z[n:])]) for n in (4, 3)]

        def wanted(parameters):
            reviews = zip(batch["source"], batch["ratings"], all_, strict=False)
            return sum(expected_cost(merge, parameters, *review) for review in reviews)

        def found(selected):
            def total(parameters):
                read = merge(parameters).read(batch["source"], selected=selected)
                log_p = jnp.sum(read["log_probability"])
                return task.of_choice(read, batch)[0], log_p

            gradient, log_p = jax.grad(total, has_aux=True)(parameters)
            return jax.tree.map(lambda x: x * jnp.exp(log_p), gradient), jnp.exp(log_p)

        pairs = np.array([[*pair, [False] * 4] for pair in product(*all_)])
        summed = jax.jit(lambda pairs: jax.tree.map(lambda x: x.sum(axis=0), jax.vmap(found)(pairs)))
        gradient, probability = summed(jnp.asarray(pairs))
        exact = jax.jit(jax.grad(wanted))(parameters)
        np.testing.assert_allclose(probability, 1, atol=1e-12)
        for name, x in exact.items():
            assert np.abs(x).max() > 1e-4, name
            np.testing.assert_allclose(gradient[name], x, atol=1e-9, err_msg=name)


def test_without_a_key_the_generator_gets_no_gradient():
    merge, parameters = made(IndependentGenerator)
    parameters = {name: jnp.asarray(x, jnp.float32) for name, x in parameters.items()}
    parameters["generator.score.bias"] += 3.0  # so that something is selected
    gradient = jax.jit(jax.grad(lambda p: Rationale().loss(merge(p), BATCH, None)[0]))(parameters)
    assert not any(np.asarray(x).any() for name, x in gradient.items() if name.startswith("generator"))
    assert np.asarray(gradient["output.kernel"]).any()


def one_review(**changes):
    return {
        "predicted": np.array([0.5]), "rating": np.array([1.0]), "weights": np.array([0.4, 0.1, 0.3, 0.2]),
        "selected": np.array([True, False, True, True]), "gold": np.array([True, False, False, True]), **changes,
    }  # fmt: skip


def test_scores_by_hand():
    """Two reviews of 4 and 2 words: 3 and 1 words are selected, 2 and 1 are gold, 2 and 0 selected words are gold."""
    second = one_review(
        rating=np.array([0.0]),
        weights=np.array([0.9, 0.1]),
        selected=np.array([True, False]),
        gold=np.array([False, True]),
    )
    found = scores([one_review(), second])
    assert found["mean_squared_error"] == 0.25 and found["constant_error"] == 0.25 and found["accuracy"] == 50
    assert found["selected_share"] == pytest.approx(400 / 6) and found["spans"] == 1.5 and found["reviews"] == 2
    assert found["precision"] == 50 and found["recall"] == pytest.approx(200 / 3)
    assert found["rationale_f1"] == pytest.approx(400 / 7)
    assert found["random_precision"] == pytest.approx(100 * (3 * 2 / 4 + 1 * 1 / 2) / 4)
    assert len(found["precision_at"]) == len(SHARES)
    # At 60 %: the two and one words with the greatest weight, of which one is gold. At 80 %: three and two, of which
    # two and one are gold.
    assert found["precision_at"][-2:] == [[50.0, pytest.approx(100 / 3)], [pytest.approx(500 / 6), 60.0]]


def test_random_precision_is_the_mean_over_random_choices():
    rng = np.random.default_rng(0)
    reviews = [one_review(gold=rng.random(n) < 0.3, weights=rng.random(n), selected=rng.random(n) < s)
               for n, s in ((7, 0.2), (23, 0.4), (11, 0.9))]  # fmt: skip
    shuffled = [[{**one, "selected": rng.permutation(one["selected"])} for one in reviews] for _ in range(500)]
    drawn = [scores(some)["precision"] for some in shuffled]
    assert np.mean(drawn) == pytest.approx(scores(reviews)["random_precision"], abs=4 * np.std(drawn) / 500**0.5)


def test_precision_is_undefined_without_gold_or_selection():
    assert "precision" not in scores([one_review(gold=None)])
    nothing = scores([one_review(selected=np.zeros(4, bool))])
    assert "precision" not in nothing and nothing["recall"] == 0 and nothing["spans"] == 0
    assert "accuracy" not in scores([one_review(rating=np.array([0.75]))])
    unmarked = scores([one_review(gold=np.zeros(4, bool))])
    assert "recall" not in unmarked and unmarked["precision"] == unmarked["rationale_f1"] == 0
    neither = scores([one_review(gold=np.zeros(4, bool), selected=np.zeros(4, bool))])
    assert neither.keys().isdisjoint({"recall", "rationale_f1", "precision"})


def test_an_evaluation_skips_padding_rows_and_selects_the_largest_weights():
    batch = {**BATCH, "gold": np.array([[0, 0, 1, 1], [1, 0, 0, 0], [0] * 4], np.int32)}
    weights = np.array([[1, 2, 3, 4], [9, 1, 1, 0], [0] * 4], float)
    model = SimpleNamespace(read=lambda source: {"ratings": SAID, "selected": SELECTED, "weights": weights})
    plain, heaviest = RationaleEvaluation(), RationaleEvaluation(share=0.5)
    triples = [(np.array([3, 8, -1]), batch, plain.outputs(model, batch))]
    found = plain.score(triples, None)
    assert found["reviews"] == 2 and found["selected_share"] == pytest.approx(500 / 7) and found["precision"] == 60
    found = heaviest.score(triples, None)
    assert found["precision"] == 75 and found["selected_share"] == pytest.approx(400 / 7)
    assert "precision 75.0" in heaviest.summary(found)

"""Sets and their answers against Python's sets, and models that cannot depend on the order."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.sets.models import MODELS, SetClassifier, by_order, measure_sets
from attention_research.experiments.lectures.sets.tasks import (
    COUNTED,
    TASKS,
    Sets,
    answers,
    ascending,
    classes,
    draw,
    shuffled,
)
from attention_research.layers.structure import abstract, initializer
from attention_research.studies import load_study

SETS = Sets(symbols=13, smallest=3, largest=7)
SIZES = {"width": 12, "num_heads": 3, "num_layers": 2, "recurrent_width": 11, "hidden_width": 17}


def rows(tokens):
    return [[int(x) for x in row if x] for row in np.asarray(tokens)]


def test_tests_import_the_module_that_the_study_runs(root):
    study = load_study("lectures/sets", root / "experiments")
    assert {stage.function for stage in study.stages} == {measure_sets}


@pytest.mark.parametrize("task", TASKS)
def test_answers_are_those_of_pythons_own_sets(task):
    tokens = draw(task, SETS, 400, jax.random.key(0))
    said = {
        "largest": max,
        "count": lambda row: row.count(COUNTED),
        "duplicate": lambda row: int(len(set(row)) < len(row)),
    }
    found = np.asarray(answers(task, tokens))
    assert found.tolist() == [said[task](row) for row in rows(tokens)]
    sizes = Counter(map(len, rows(tokens)))
    assert set(sizes) == set(range(3, 8)) and max(sizes.values()) < 2 * min(sizes.values())
    assert Counter(found.tolist()).most_common(1)[0][1] < 400 * (0.6 if task == "duplicate" else 0.3)
    assert int(tokens.max()) == 13 and found.max() < classes(task, SETS)


@pytest.mark.slow
def test_orders_keep_the_elements_and_padding_behind_them():
    tokens = draw("duplicate", SETS, 50, jax.random.key(1))
    other, sorted_rows = shuffled(tokens, jax.random.key(2)), ascending(tokens)
    assert rows(sorted_rows) == [sorted(row) for row in rows(tokens)]
    assert [sorted(row) for row in rows(other)] == rows(sorted_rows) and rows(other) != rows(tokens)
    assert np.array_equal(np.asarray(other) == 0, np.asarray(tokens) == 0)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "attention_positions")) for kind in MODELS]
)
def test_only_positions_and_recurrence_know_the_order(kind):
    make = lambda rngs: SetClassifier(kind, SETS, num_classes=5, rngs=rngs, **SIZES)
    structure, *_ = abstract(make)
    parameters, _ = jax.jit(initializer(make))(jax.random.key(0))
    run = jax.jit(lambda tokens: structure.merge(parameters)(tokens))
    tokens = draw("count", SETS, 20, jax.random.key(3))
    padded = jnp.where(jnp.arange(7) < 5, tokens, 0)
    here, there = run(tokens), run(shuffled(tokens, jax.random.key(4)))
    assert here.shape == (20, 5)
    difference = float(jnp.abs(here - there).max())
    assert difference < 1e-5 if kind in ("attention", "mean") else difference > 1e-3
    np.testing.assert_allclose(run(padded), run(padded[:, :5]), atol=1e-5)


def test_a_classifier_that_reads_the_first_element_changes_with_the_order():
    tokens = jnp.asarray([[1, 2, 3, 4], [5, 5, 5, 0]])
    right = jnp.asarray([1, 5])
    found = by_order(lambda x: jax.nn.one_hot(x[:, 0], 6), tokens, right, 16, jax.random.key(0))
    assert found["changed"] == 0.5 and found["ascending"] == 1.0
    assert set(found["by_order"]) == {0.5, 1.0} and found["spread"] == 0.5
    assert found["accuracy"] == pytest.approx(np.mean(found["by_order"]))


@pytest.mark.slow
def test_a_bag_of_symbols_learns_to_count_without_order():
    settings = {"steps": 60, "batch_size": 32, "learning_rate": 0.01, "examples": 64, "orders": 3, "sizes": SIZES}
    found = measure_sets(model="mean", task="count", seed=0, sets=(13, 3, 7), **settings)
    assert found["accuracy"] > found["majority"] + 0.1 and found["changed"] == found["sorted_changed"] == 0.0
    assert found["parameters"] == 14 * 12 + 12 * 17 + 17 + 17 * 8 + 8

"""Splitting a module into structure and named arrays, and merging them again."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attention_research.layers.structure import abstract, initializer, split


class Leaf(nnx.Module):
    def __init__(self, rngs):
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (2, 3)))


class Pair(nnx.Module):
    def __init__(self, rngs):
        self.b, self.a = Leaf(rngs), Leaf(rngs)
        self.items = nnx.List([Leaf(rngs)])
        self.mean = nnx.BatchStat(jnp.zeros(5))


def test_names_and_kinds():
    structure, parameters, statistics = split(Pair(nnx.Rngs(0)))
    assert sorted(parameters) == ["a.weight", "b.weight", "items.0.weight"] and list(statistics) == ["mean"]


def test_merge_is_by_name_not_by_order():
    structure, parameters, statistics = split(Pair(nnx.Rngs(0)))
    module = structure.merge(dict(reversed(parameters.items())), statistics)
    assert (module.a.weight[...] == parameters["a.weight"]).all() and (
        module.b.weight[...] == parameters["b.weight"]
    ).all()


def test_merge_names_missing_and_unexpected():
    structure, parameters, statistics = split(Pair(nnx.Rngs(0)))
    parameters["c.weight"] = parameters.pop("a.weight")
    with pytest.raises(KeyError, match=r"missing \['a.weight'\], unexpected \['c.weight'\]"):
        structure.merge(parameters, statistics)


def test_abstract_equals_concrete_and_allocates_nothing():
    concrete, _, _ = split(Pair(nnx.Rngs(0)))
    structure, parameters, _ = abstract(Pair)
    assert structure == concrete
    assert all(isinstance(x, jax.ShapeDtypeStruct) for x in parameters.values())


def test_initializer_is_the_same_plain_and_mapped():
    start = initializer(Pair)
    plain, _ = jax.jit(start)(jax.random.key(3))
    mapped, _ = jax.jit(jax.vmap(start))(jnp.stack([jax.random.key(3), jax.random.key(4)]))
    for name, x in plain.items():
        assert (x == mapped[name][0]).all() and (x != mapped[name][1]).any()


def test_a_shared_variable_is_refused():
    class Shared(nnx.Module):
        def __init__(self, rngs):
            self.a = Leaf(rngs)
            self.b = self.a

    with pytest.raises(ValueError, match="b.weight: the same variable as a.weight"):
        split(Shared(nnx.Rngs(0)))


def test_a_bare_array_is_refused():
    class Bare(nnx.Module):
        def __init__(self, rngs):
            self.table = nnx.data(jnp.ones(3))

    with pytest.raises(ValueError, match="table: a bare"):
        split(Bare(nnx.Rngs(0)))

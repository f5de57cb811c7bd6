"""The batch axes of an opaque cache: found by shape, repeated, reordered in groups; constant parts are left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table_model import TableModel, batch_of

from attention_research.decoding import BeamSearch
from attention_research.decoding.cache import batch_axes, reorder, repeat

SOURCE = batch_of([[3, 2], [4, 5, 2], [5, 2]])


def test_axes_are_found_even_where_other_axes_are_as_long():
    def start(source):
        batch = source["tokens"].shape[0]
        return {"a": jnp.zeros((3, 7, batch, 3)), "b": jnp.int32(0), "c": (jnp.zeros((batch, 3)), jnp.zeros((3, 3)))}

    assert batch_axes(start, SOURCE) == {"a": 2, "b": -1, "c": (0, -1)}


def test_the_model_is_only_traced():
    model = TableModel(7)
    axes = batch_axes(lambda source: model.start(model.encode(source), 10**12), SOURCE)
    assert axes == {"index": -1, "prefix": 1, "running": 1, "memory": {"hash": 2, "positions": 0}}


@pytest.mark.parametrize("shape", [lambda b: (b * 2, 5), lambda b: (b, b)], ids=["folded heads", "two axes"])
def test_a_batch_axis_that_cannot_be_reordered_is_named(shape):
    with pytest.raises(ValueError, match=r"cache\['keys'\]: expected one axis as long as the batch"):
        batch_axes(lambda source: {"keys": jnp.zeros(shape(source["tokens"].shape[0]))}, SOURCE)


def test_repeat_and_reorder_are_numpy_indexing():
    cache = {"a": jnp.arange(5 * 3 * 2.0).reshape(5, 3, 2), "b": jnp.arange(3), "index": jnp.int32(4)}
    axes = {"a": 1, "b": 0, "index": -1}
    wide = repeat(cache, axes, 2)
    np.testing.assert_array_equal(wide["b"], [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(wide["a"], np.asarray(cache["a"])[:, [0, 0, 1, 1, 2, 2]])
    assert wide["index"] == 4
    distinct = {"a": jnp.arange(5 * 6 * 2.0).reshape(5, 6, 2), "b": jnp.arange(6), "index": jnp.int32(4)}
    moved = reorder(distinct, axes, jnp.array([[1, 1], [0, 1], [1, 0]]))
    np.testing.assert_array_equal(moved["b"], [1, 1, 2, 3, 5, 4])
    np.testing.assert_array_equal(moved["a"], np.asarray(distinct["a"])[:, [1, 1, 2, 3, 5, 4]])
    assert moved["index"] == 4


def test_unchanged_cache_entries_are_not_gathered():
    class Wide(TableModel):
        def start(self, memory, length=None):
            return {**super().start(memory, length), "keys": jnp.zeros((memory["hash"].shape[0], 577))}

        def step(self, cache, tokens):
            keys = cache["keys"] + self.touch if self.touch else cache["keys"]
            new, log_probabilities, collected = super().step({k: v for k, v in cache.items() if k != "keys"}, tokens)
            return {**new, "keys": keys}, log_probabilities, collected

    def gathers(touch):
        model = Wide(7)
        model.touch = touch
        text = str(jax.make_jaxpr(lambda source: BeamSearch()(model, source, max_length=5))(SOURCE))
        return sum("gather" in line and "577" in line for line in text.splitlines())

    assert gathers(1.0) > 0 and gathers(0.0) == 0

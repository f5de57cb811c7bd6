"""A step beyond the last position of a cache is refused by every kind of attention whose cache has a position each."""

import jax
import jax.numpy as jnp
import pytest

from attention_research.layers.structure import abstract
from tests.models.test_unusual_settings import KINDS
from tests.models.unusual_models import constructor
from tests.tiers import fast_are

#: The size of the cache: that of a window of round 0, and smaller than the cache of `streaming`.
SIZE = 3
#: Classes with a step of their own.
FAST = ("standard", "latent", "path", "hyena", "streaming", "transformer_xl_memory", "dense_synthesizer", "gla")
TOKENS = jnp.array([3, 4], jnp.int32)


@pytest.mark.parametrize("kind", fast_are(FAST, KINDS))
def test_a_step_beyond_a_full_cache_is_refused(kind):
    """The index is known: in a compiled program it is not, and a search stops at the length of its cache."""
    make = constructor("transformer_decoder", f"{kind}-0")
    structure, *arrays = abstract(lambda rngs: make(rngs=rngs))

    def after(arrays, size, index):
        model = structure.merge(*arrays)
        return model.step({**model.start(len(TOKENS), size), "index": index}, TOKENS)[1]

    step = lambda size, index: jax.eval_shape(lambda arrays: after(arrays, size, index), arrays)
    start = lambda size: jax.eval_shape(lambda arrays: structure.merge(*arrays).start(len(TOKENS), size), arrays)
    last, next_one = jnp.int32(SIZE - 1), jnp.int32(SIZE)
    step(SIZE, last)
    if jax.tree.map(jnp.shape, start(SIZE)) == jax.tree.map(jnp.shape, start(SIZE + 1)):
        step(SIZE, next_one)
        return
    with pytest.raises(ValueError, match=f"^position {SIZE}: the cache has {SIZE} positions"):
        step(SIZE, next_one)

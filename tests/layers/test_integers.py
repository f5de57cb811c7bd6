"""Ids, targets and positions of any integer dtype give the same results. Floats are refused by name."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.structure import abstract
from attention_research.models.copying.extended import extended_ids, known
from attention_research.registry import FAMILIES, lookup
from attention_research.signatures import Constructor

#: More classes than a byte can count.
V, D = 300, 6
CLUSTERS = {"cluster_sizes": (30, 70, 200), "cluster_widths": (D, 4, 2)}
SETTINGS = {
    "bert": {"norm": Constructor(lookup("norm", "layer_norm"), {"width": D})},
    "factorized": {"rank": 4},
    "factorized_shared": {"rank": 4},
    "adaptive_input": CLUSTERS,
    "adaptive_softmax": {**CLUSTERS, "tail_share": 0.5},
    "mixture_of_softmaxes": {"num_softmaxes": 2},
}
NARROW = ("int8", "uint8", "int16", "uint16")


@pytest.fixture(autouse=True)
def unchecked():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def same_in_every_dtype(function, numbers):
    """function(numbers) in each narrow dtype equals the result in int32."""
    wanted, *found = jax.jit(lambda every: [function(x) for x in every])(
        [jnp.asarray(numbers, dtype) for dtype in ("int32", *NARROW)]
    )
    for dtype, one in zip(NARROW, found, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=dtype), one, wanted)  # noqa: B023


#: These look up and score with the code of other kinds.
SLOW = ("adaptive_input", "factorized_shared", "t5", "t5_untied", "t5_untied_encoder", "t5_untied_output", "unscaled",
        "unscaled_no_bias", "untied", "separate", "shared_with_bias", "adaptive_softmax")  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in FAMILIES["vocabulary"]]
)
def test_vocabularies_take_ids_of_any_dtype(kind):
    more = SETTINGS.get(kind, {})
    make = lookup("vocabulary", kind)
    structure, shapes, _ = abstract(lambda rngs: make(vocabulary_size=V, width=D, dtype="float32", **more, rngs=rngs))
    random = np.random.default_rng(0)
    vocabulary = structure.merge({n: jnp.asarray(random.normal(size=x.shape), x.dtype) for n, x in shapes.items()})
    ids, hidden = random.integers(0, 128, (2, 5)), jnp.asarray(random.standard_normal((2, 5, D)), jnp.float32)
    uses = lambda ids: (vocabulary.source(ids), vocabulary.target(ids), vocabulary.log_likelihood(hidden, ids))
    same_in_every_dtype(uses, ids)
    for name, use in (("ids", vocabulary.source), ("targets", lambda x: vocabulary.log_likelihood(hidden, x))):
        with pytest.raises(ValueError, match=f"^{name}: expected integers, got float32"):
            jax.eval_shape(use, ids.astype(np.float32))


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES["positions"] if kind not in ("none", "conditional")])
def test_positions_may_be_of_any_dtype(kind):
    more = {"norm": Constructor(lookup("norm", "layer_norm"), {"width": D})} if kind == "learned_normed" else {}
    layer = lookup("positions", kind)(width=D, max_length=V, **more, rngs=nnx.Rngs(0))
    positions, x = np.array([[0, 1, 127], [3, 2, 100]]), jnp.ones((2, 3, D))
    same_in_every_dtype(lambda positions: layer(x, positions), positions)
    with pytest.raises(ValueError, match="^positions: expected integers, got float32"):
        jax.eval_shape(lambda positions: layer(x, positions), positions.astype(np.float32))


def test_an_extended_vocabulary_is_counted_beyond_a_byte():
    source = np.array([[5, 127, 5, 90]])
    same_in_every_dtype(lambda source: (known(source, 300), extended_ids(source, 90)), source)

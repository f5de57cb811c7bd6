"""A model's forward pass is exported once with symbolic numbers of rows and tokens, and is correct for any."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax import export

from attention_research.layers.structure import abstract, initializer
from tests.layers.test_registry import model_maker

LIKELIHOOD = lambda model, batch: model.log_likelihood(batch)[0]["log_likelihood"]
CLASSES = lambda model, batch: model.log_probabilities(batch)[0]
MODELS = {
    "transformer": (LIKELIHOOD, ("source", "target")),
    "language_model": (LIKELIHOOD, ("source", "target")),
    "encoder_classifier": (CLASSES, ("source",)),
}
QUICK = "encoder_classifier"


@pytest.fixture(autouse=True)
def unchecked():
    """The tests' run-time type checks would refuse symbolic sizes, which are not ints."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def exported(kind, constraints):
    """(the exported program, its function jitted, parameters and statistics)."""
    outputs, names = MODELS[kind]
    make = model_maker(kind)
    structure = abstract(make)[0]
    given = jax.jit(initializer(make))(jax.random.key(0))
    function = jax.jit(lambda parameters, statistics, batch: outputs(structure.merge(parameters, statistics), batch))
    axes = ["b", "s", "t"][: 1 + len(names)]
    rows, *lengths = export.symbolic_shape(
        ", ".join(axes), constraints=[f"{axis} <= 11" for axis in axes[1:]][:constraints]
    )
    batch = {name: jax.ShapeDtypeStruct((rows, length), jnp.int32) for name, length in zip(names, lengths, strict=True)}
    return (
        export.export(function)(*jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), given), batch),
        function,
        given,
    )


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == QUICK else pytest.mark.slow) for kind in MODELS]
)
def test_one_program_is_right_at_two_lengths(kind):
    program, function, given = exported(kind, constraints=2)
    for rows, *lengths in ((2, 7, 5), (3, 11, 9)):
        random = np.random.default_rng(rows)
        batch = {}
        for name, length in zip(MODELS[kind][1], lengths, strict=False):
            tokens = random.integers(4, 23, (rows, length))
            tokens[-1, -2:] = 0
            batch[name] = jnp.asarray(tokens, jnp.int32)
        got, want = program.call(*given, batch), function(*given, batch)
        np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)


def test_a_length_that_may_exceed_the_table_of_positions_is_refused():
    with pytest.raises(ValueError) as caught:
        exported(QUICK, constraints=0)
    assert str(caught.value) == (
        "sinusoidal positions: axis T: expected a symbolic size of at most the table's 11 rows, got s; "
        "give jax.export.symbolic_shape the constraint 's <= 11'"
    )

"""Properties of every Transformer, for the rows of Narang et al. 2021, Table 1, and related models at `smoke` sizes.

The fast tests take one row.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from facts import (
    QUICKLY,
    assert_alive,
    assert_alone_as_in_the_batch,
    assert_causal,
    assert_stepping_is_the_full_forward,
    batch_of,
    facts_of,
    moved,
)  # fmt: skip
from flax import nnx

from attention_research.config import build_experiment
from attention_research.layers.structure import abstract, split
from attention_research.studies import load_study
from attention_research.studies.trials import configuration
from tests.tiers import fast_are

STUDIES = ("narang2021/table1", "narang2021/as_written")
FEW = ("vanilla_transformer",)
#: Rows of the slow tests, one for each part of a model that rows change. The others are long.
SLOW = (
    "universal_transformer-as-written", "evolved_transformer", "mixture_of_experts", "product_key_memory",
    "switch_transformer", "adaptive_softmax", "weighted_transformer", "block_sharing", "factorized_shared_embeddings",
    "funnel_transformer", "transparent_attention", "mixture_of_softmaxes", "rezero_plus_layernorm", "fixup",
    "dynamic_convolution-as-written",
)  # fmt: skip
#: Rows that differ from another row only in an activation or a size. `tests/layers/test_feed_forwards.py` compares
#: every activation with its equation.
SAME_BLOCKS = (
    "swish", "elu", "glu", "geglu", "reglu", "selu", "liglu", "sigmoid", "softplus",
    "24_layers_d_f_1536_h_6", "18_layers_d_f_2048_h_8", "8_layers_d_f_4608_h_18",
)  # fmt: skip
#: The rows of their kind that are tested, but not also unrolled and in bfloat16.
LIKE_THE_BASELINE = ("gelu", "swiglu", "6_layers_d_f_6144_h_24")
#: Rows whose start matters, and the vanilla one. With random parameters, Fixup's layers saturate the softmax, and
#: universal stacks halt at once.
OWN_START = (
    "vanilla_transformer", "rezero", "rezero_plus_layernorm", "fixup", "synthesizer_dense_plus_alpha",
    "switch_transformer", "universal_transformer", "universal_transformer-as-written",
)  # fmt: skip

WIDTH = 16


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        root = metafunc.config.rootpath
        rows = [(s, r.id) for s in STUDIES for r in load_study(s, root / "experiments").rows_at("smoke")]
        assert {row for _, row in rows} >= {*SAME_BLOCKS, *LIKE_THE_BASELINE, *OWN_START, *SLOW}
        rows = [row for row in rows if row[1] not in SAME_BLOCKS]
        if metafunc.function in (test_a_loop_over_the_layers_equals_the_scan, test_bfloat16_is_near):
            rows = [row for row in rows if row[1] not in LIKE_THE_BASELINE]
        if metafunc.function is test_every_parameter_is_alive_within_an_update:
            rows = [row for row in rows if row[1] not in OWN_START or row[1] in FEW]
        if metafunc.function is test_every_parameter_is_alive_within_two_updates_from_its_start:
            rows = [row for row in rows if row[1] in OWN_START]
        cases = {row[1]: [row] for row in rows}
        slow = {*SLOW} & cases.keys()
        metafunc.parametrize(["row"], fast_are(FEW, cases, slow=slow, several=True), scope="module")


@pytest.fixture(scope="module")
def batch():
    return batch_of(np.random.default_rng(0), words=211)


@pytest.fixture(scope="module")
def built(row, root):
    """overrides -> (constructor of the row's model, its structure, random parameters)."""
    study = load_study(row[0], root / "experiments")
    chosen = next(r for r in study.rows if r.id == row[1])

    def build(**model):
        changes = [(f"model.{path.replace('__', '.')}", value) for path, value in model.items()]
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(root)
            make = build_experiment(configuration(study, "smoke", chosen).override(changes)).model
        structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
        rng = np.random.default_rng(1)
        draw = lambda x: rng.standard_normal(x.shape) * (x.shape[-1] ** -0.5 if x.shape else 1.0)
        return make, structure, {
            name: jnp.asarray(draw(x) + name.endswith("scale"), x.dtype) for name, x in sorted(shapes.items())
        }  # fmt: skip

    return build


@pytest.fixture(scope="module")
def plain(built):
    """The row without changes."""
    return built()


@pytest.fixture(scope="module")
def look(plain, batch):
    """parameters -> the facts, compiled once."""
    return facts_of(plain[1], batch, WIDTH)


@pytest.fixture(scope="module")
def facts(plain, look):
    """The facts at random parameters."""
    return look(plain[2])


def test_every_parameter_is_alive_within_an_update(plain, look, facts):
    assert_alive(facts, look(moved(plain[2], facts["gradients"])))


@pytest.mark.slow
def test_every_parameter_is_alive_within_two_updates_from_its_start(plain, look):
    """ReZero's zeros need two: first the decoder's change, then the encoder's."""
    make, *_ = plain
    start = jax.jit(lambda key: split(make(rngs=nnx.Rngs(key)))[1], compiler_options=QUICKLY)
    parameters = start(jax.random.key(0))
    points = [look(parameters)]
    for _ in range(2):
        parameters = moved(parameters, points[-1]["gradients"])
        points.append(look(parameters))
    assert_alive(*points)


def test_decoding_step_by_step_equals_the_full_forward(facts):
    assert_stepping_is_the_full_forward(facts)


def test_the_future_has_exactly_zero_gradient(facts):
    assert_causal(facts)


def test_padding_and_batch_size_change_nothing(facts, batch):
    assert_alone_as_in_the_batch(facts, batch)


def test_a_loop_over_the_layers_equals_the_scan(built, facts, batch):
    _, structure, parameters = built(encoder__unroll=True, decoder__unroll=True)
    run = jax.jit(lambda p: structure.merge(p).log_likelihood(batch)[0]["log_likelihood"], compiler_options=QUICKLY)
    np.testing.assert_allclose(run(parameters), facts["log_likelihood"], rtol=1e-5, atol=3e-5)


@pytest.mark.slow
def test_bfloat16_is_near(built, facts, batch):
    _, structure, parameters = built(dtype="bfloat16")
    values = jax.jit(lambda p: structure.merge(p).log_likelihood(batch)[0], compiler_options=QUICKLY)(parameters)
    exact = facts["log_likelihood"]
    far = np.abs(np.asarray(values["log_likelihood"], np.float32) - exact)[values["mask"]]
    assert 0 < far.max() and far.mean() < 0.02 * np.abs(exact).mean()

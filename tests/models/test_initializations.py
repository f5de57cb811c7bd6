"""The initialisations of Narang et al. 2021's release, by Kolmogorov-Smirnov tests with SciPy; Fixup's equations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

from attention_research.config import build_model
from attention_research.errors import ConfigError
from attention_research.layers.attention.state.rwkv7 import RWKV7
from attention_research.layers.attention.state.short_convolution import ShortConvolution
from attention_research.layers.convolution.separable import SeparableConvolution
from attention_research.layers.initialization import fixup as fixup_module
from attention_research.layers.initialization import gpt2
from attention_research.layers.initialization.fixup import residual_branches
from attention_research.layers.linear import Linear
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.layers.positions.conditional import ConditionalPositions
from attention_research.layers.recurrent.gru import GRUCell
from attention_research.layers.recurrent.lstm import LSTMCell
from attention_research.layers.recurrent.lstm_forget_bias import ForgetBiasLSTMCell
from attention_research.layers.structure import abstract, initializer, split
from attention_research.layers.vision.convolution import Convolution
from attention_research.registry import lookup

D, H, N, F, L = 24, 7, 4, 46, 3


def layers(*before):
    """Steps of encoder and decoder, the same around each layer."""
    of = {"encoder": ("self_attention", "feed_forward"),
          "decoder": ("self_attention", "cross_attention", "feed_forward")}  # fmt: skip
    return {side: {"steps": [(*before, one, "dropout", "residual") for one in some]} for side, some in of.items()}


def release(**more):
    steps = layers("norm")
    attention = {"use_bias": False}
    return {
        "width": D, "num_heads": N, "head_width": H, "num_layers": L,
        "positions": {"kind": "none"}, "vocabulary": {"kind": "t5"},
        "self_attention": {"kind": "t5", **attention}, "feed_forward": {"hidden_width": F},
        "encoder": {**steps["encoder"], "final_norm": True},
        "decoder": {**steps["decoder"], "final_norm": True, "cross_attention": {"kind": "unscaled", **attention}},
        **more,
    }  # fmt: skip


def fixup():
    section = release(
        self_attention={"kind": "standard", "use_bias": False}, feed_forward={"kind": "shifted", "hidden_width": F},
        initialization={"kind": "fixup"},
    )  # fmt: skip
    steps = layers("shift")
    ends = {"encoder": "scalar_shift_scale", "decoder": "scalar_shift"}
    for side, norm in ends.items():
        section[side] = {"residual": {"kind": "scaled"}, "norm": {"kind": norm}, "final_norm": True, **steps[side]}
    return section


@pytest.fixture(scope="module")
def started(small_constructor):
    """Name in SECTIONS -> (key -> arrays, the arrays of key 0 in float64 by name)."""

    @functools.cache
    def of(name):
        section = small_constructor(**SECTIONS[name]())
        init = initializer(lambda rngs: section(rngs=rngs))
        arrays = jax.jit(init)(jax.random.key(0))[0]
        return init, {name: np.asarray(x, np.float64) for name, x in arrays.items()}

    return of


SECTIONS = {
    "as_built": release,
    "release": lambda: release(initialization={"kind": "mesh_tensorflow"}),
    "experts": lambda: release(
        initialization={"kind": "mesh_tensorflow", "dense_variance": 0.1},
        feed_forward={"kind": "switch", "num_experts": 3, "expert": {"hidden_width": F}},
    ),
    "scaled": lambda: release(initialization={"kind": "mesh_tensorflow_scaled"}),
    "fixup": fixup,
}


def follows(x, distribution):
    """Tests each layer separately, so that a stack of equal layers, or one of another width, fails."""
    assert len({layer.tobytes() for layer in x}) == len(x), "two layers start alike"
    assert stats.kstest(x.ravel(), distribution.cdf).pvalue > 1e-3
    np.testing.assert_allclose([layer.std() for layer in x], distribution.std(), rtol=0.12)


def normal(deviation):
    return stats.norm(0, deviation)


def cut_off(deviation):
    """A normal distribution truncated at two deviations. `deviation` is that before the truncation."""
    return stats.truncnorm(-2, 2, 0, deviation)


@pytest.mark.parametrize(("kind", "folded"), [("release", H), pytest.param("scaled", 1, marks=pytest.mark.slow)])
def test_the_release_s_distributions(started, kind, folded):
    _, arrays = started(kind)
    seen = 0
    for name, x in arrays.items():
        *_, module, last = name.split(".")
        if "attention" in name and last == "kernel":
            of = {"query": (D * folded) ** -0.5, "key": D**-0.5, "value": D**-0.5, "output": (N * H) ** -0.5}
            follows(x, normal(of[module]))
        elif "feed_forward" in name and last == "kernel":
            follows(x, cut_off(x.shape[-2] ** -0.5))
            assert x.shape[-2] == {"hidden": D, "output": F}[module]
        elif name.endswith("shared.table"):
            limit = np.sqrt(6 / (N + 32))
            assert x.shape == (32, N) and np.abs(x).max() < limit
            follows(x[None], stats.uniform(-limit, 2 * limit))
        elif name == "vocabulary.table":
            follows(x[None], normal(1.0))
        else:
            assert (x == (1 if last == "scale" else 0)).all(), name
            continue
        seen += 1
    assert seen == 12 + 4 + 2 + 1  # three attentions, two feed-forwards, two bias tables, the vocabulary


@pytest.mark.slow
def test_embeddings_biases_and_gains_keep_their_own_initialisation(started):
    built, drawn = started("as_built")[1], started("release")[1]
    assert built.keys() == drawn.keys()
    same = {name for name in built if (built[name] == drawn[name]).all()}
    assert same == {n for n in built if not n.endswith(".kernel") and not n.endswith("shared.table")}


@pytest.mark.slow
def test_experts_and_routers_have_the_released_tenth(started):
    _, arrays = started("experts")
    sparse = {n: x for n, x in arrays.items() if "feed_forward" in n and n.endswith(".kernel")}
    assert len(sparse) == 6
    for x in sparse.values():
        follows(x, cut_off((0.1 / x.shape[-2]) ** 0.5))


def test_the_last_matrices_of_experts_are_last_matrices():
    name = "encoder.stack.segments.0.feed_forward.experts.output.kernel"
    assert gpt2.LAST.search(name) and fixup_module.ZERO.search(name)
    assert any(one.search(name.replace("output", "hidden")) for one in fixup_module.SCALED)


@pytest.mark.parametrize("kind", ["pytorch", "gpt2"])
def test_starts_of_linear_layers_leave_filters(kind):
    """The scale of a filter is that of its own taps, not of a matrix with its channels as inputs."""

    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.short = ShortConvolution(64, 4, rngs=rngs)
            self.separable = SeparableConvolution(64, 3, 5, rngs=rngs)
            self.positions = ConditionalPositions(width=64, rngs=rngs)
            self.projection = Linear(64, 3, rngs=rngs)

    before, after = redrawn(Layer, kind)
    same = {name for name in before if (before[name] == after[name]).all()}
    filters = {"short.filter_kernel", "separable.kernel", "positions.kernel"}
    assert filters <= same and {"separable.pointwise.kernel", "projection.kernel"}.isdisjoint(same)


def test_pytorch_s_start_is_that_of_linear_layers_only():
    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.projection = Linear(64, 30, rngs=rngs)
            self.image = Convolution(4, 256, 3, rngs=rngs)
            self.cell = GRUCell(width=4, input_width=3, rngs=rngs)
            self.state = RWKV7(width=8, num_heads=2, head_width=4, rngs=rngs)

    before, after = redrawn(Layer, "pytorch")
    linear = {name for name in before if name.endswith(".kernel") and not name.startswith("image")} | {
        "projection.bias"
    }
    assert {name for name in before if (before[name] != after[name]).any()} == linear
    for x in (after["projection.kernel"], after["projection.bias"]):
        assert 0.8 / 8 < np.abs(x).max() <= 1 / 8


def redrawn(make, kind):
    """The parameters of a layer by name, before and after an initialization."""
    layer = make(nnx.Rngs(0))
    of = lambda: {name: np.asarray(x) for name, x in split(layer)[1].items()}
    before = of()
    lookup("initialization", kind)()(layer, nnx.Rngs(1))
    return before, of()


RECURRENT = {
    "kind": "recurrent", "width": 8, "num_layers": 1, "embedding_width": 6, "cell": {"kind": "gru_reset_before"},
    "encoder": {"kind": "bidirectional"}, "decoder": {"kind": "bahdanau", "readout_width": 6},
}  # fmt: skip


def recurrent(**changes):
    section = build_model({**RECURRENT, **changes}, max_length=8, vocabulary_size=20)
    return split(jax.jit(lambda key: section(rngs=nnx.Rngs(key)))(jax.random.key(0)))


def test_bahdanau_s_start_of_rnnsearch():
    """Appendix B.1: every vector of the paper's model starts at 0, and no matrix does."""
    alignment = {"kind": "global", "score": {"kind": "additive"}}
    _, parameters, _ = recurrent(alignment=alignment, initialization={"kind": "bahdanau"})
    assert all((x.ndim < 2) == bool((x == 0).all()) for x in parameters.values())


@pytest.mark.parametrize("alignment", ["monotonic", "mocha"])
@pytest.mark.parametrize("kind", ["bahdanau", "uniform"])
def test_a_monotonic_energy_starts_as_its_settings_say(kind, alignment):
    """With v = 0 or a gain of 0, its gradients would be 0 forever."""
    changed = {"alignment": {"kind": alignment, "offset": -3.0}}
    structure, parameters, _ = recurrent(**changed, initialization={"kind": kind})
    (offset,), (gain,) = ([float(x) for n, x in parameters.items() if n.endswith(end)] for end in ("offset", "gain"))
    assert offset == -3.0 and gain == pytest.approx(8**-0.5)
    batch = {"source": jnp.asarray([[5, 6, 7, 2]]), "target": jnp.asarray([[7, 8, 2]])}
    loss = lambda p: -structure.merge(p).log_likelihood(batch, key=jax.random.key(1))[0]["log_likelihood"].sum()
    gradients = jax.jit(jax.grad(loss))(parameters)
    energy = ["query_weight", "key_weight", "bias", "v", "gain", "offset"]
    assert all(float(jnp.abs(gradients[f"decoder.alignment.{name}"]).max()) > 0 for name in energy)


@pytest.mark.parametrize("kind", ["bahdanau", "uniform"])
def test_an_open_forget_gate_and_the_gains_of_norms_stay(kind):
    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.open = ForgetBiasLSTMCell(width=5, input_width=3, forget_bias=2.0, rngs=rngs)
            self.plain = LSTMCell(width=5, input_width=3, rngs=rngs)
            self.norm = LayerNorm(width=5, rngs=rngs)

    layer = Layer(nnx.Rngs(0))
    lookup("initialization", kind)()(layer, nnx.Rngs(1))
    assert layer.open.bias[...].tolist() == [0.0] * 5 + [2.0] * 5 + [0.0] * 10
    assert (layer.norm.scale[...] == 1).all()
    assert bool((layer.plain.bias[...] == 0).all()) == (kind == "bahdanau")  # Sutskever et al. draw it, too


def test_fixup(started):
    """Section 3: the last matrix of a branch is 0. Others have variance 2 / fan_in times branches^(-1 / (m - 1))."""
    _, arrays = started("fixup")
    branches = 5 * L
    for name, x in arrays.items():
        variance = None
        if "feed_forward.hidden" in name:
            variance = 2 / D / branches
        elif "self_attention" in name and "output" not in name:
            variance = 2 / D / branches ** (1 / 3)
        if variance is not None:
            follows(x, cut_off(np.sqrt(variance) / stats.truncnorm(-2, 2).std()))
            np.testing.assert_allclose(x.var(), variance, rtol=0.1)
        elif "cross_attention" in name:
            follows(x, normal(((N * H) if "output" in name else D) ** -0.5))
        elif name != "vocabulary.table" and not name.endswith("shared.table"):
            assert (x == (1 if name.endswith("scale") else 0)).all(), name


def test_fixup_s_encoder_begins_as_the_identity(started, small_constructor):
    _, arrays = started("fixup")
    structure, *_ = model_of(small_constructor, "fixup")
    model = structure.merge({name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()})
    tokens = jnp.asarray([[5, 9, 4, 0]], jnp.int32)
    both = jax.jit(lambda tokens: (model.encode({"tokens": tokens})["hidden"], model.vocabulary.source(tokens)))
    np.testing.assert_array_equal(*both(tokens))
    assert residual_branches(model) == 5 * L


def model_of(small_constructor, kind):
    section = small_constructor(**SECTIONS[kind]())
    return abstract(lambda rngs: section(rngs=rngs))


@pytest.mark.parametrize("kind", [pytest.param("release", marks=pytest.mark.slow), "fixup"])
def test_initialisation_depends_on_the_key_only(started, kind):
    """The same key gives the same bits again under jit and for replicas under vmap; another key gives others."""
    init, arrays = started(kind)
    keys = jnp.stack([jax.random.key(1), jax.random.key(0)])
    replicas = jax.jit(jax.vmap(init))(keys)[0]
    for name, x in replicas.items():
        np.testing.assert_array_equal(np.asarray(x[1], np.float64), arrays[name], err_msg=name)
    drawn = [n for n, x in arrays.items() if x.std() > 0]
    assert all((np.asarray(replicas[n][0]) != arrays[n]).mean() > 0.99 for n in drawn) and drawn


@pytest.mark.slow
def test_every_parameter_of_fixup_is_alive_within_two_updates(started, small_constructor):
    """At its own start, whole branches are 0: their last matrix changes first, then everything before it."""
    _, arrays = started("fixup")
    structure, *_ = model_of(small_constructor, "fixup")
    rng = np.random.default_rng(0)
    batch = {side: jnp.asarray(rng.integers(4, 29, (3, 6)), jnp.int32) for side in ("source", "target")}

    @jax.jit
    def gradient(parameters):
        loss = lambda p: -jnp.mean(structure.merge(p).log_likelihood(batch)[0]["log_likelihood"])
        return jax.grad(loss)(parameters)

    parameters, alive = {name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()}, set()
    for _ in range(2):
        gradients = gradient(parameters)
        alive |= {name for name, g in gradients.items() if float(jnp.abs(g).max()) > 0}
        parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
    assert arrays.keys() == alive


def test_fixup_needs_branches(small_constructor):
    plain = layers()
    for side in plain.values():
        side["steps"] = [tuple(step for step in branch if step != "residual") for branch in side["steps"]]
    section = small_constructor(initialization={"kind": "fixup"}, **plain)
    with pytest.raises(ConfigError, match="residual branches"):
        jax.eval_shape(lambda key: split(initializer(lambda rngs: section(rngs=rngs))(key)), jax.random.key(0))

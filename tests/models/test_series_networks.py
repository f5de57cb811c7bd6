"""Networks over series: PyTorch as oracle, causality by gradient, the receptive field, spatial dropout, settings."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build_model, load
from attention_research.kernels.positions import rotary
from attention_research.layers.structure import split
from attention_research.models.series.temporal_convolution import spatial_dropout
from tests.tiers import fast_are

B, T, C, D, O, W, L = 3, 19, 2, 5, 4, 3, 2
NETWORKS = {
    "recurrent": {"num_layers": 2, "cell": {"kind": "gru"}},
    "temporal_convolution": {"num_layers": L, "kernel_width": W},
    "transformer": {"num_layers": 1, "num_heads": 1, "head_width": 6, "feed_forward": {"hidden_width": 7}},
}


def section(kind, **changes):
    return {"kind": "series", "channels": C, "outputs": O, "width": D, "network": {"kind": kind, **NETWORKS[kind]},
            **changes}  # fmt: skip


def built(kind, seed=0, **changes):
    """(structure, parameters): normal with deviation 0.4, so that a missing bias is noticed."""
    structure, parameters, _ = split(build_model(section(kind, **changes), max_length=T)(rngs=nnx.Rngs(0)))
    rng = np.random.default_rng(seed)
    return structure, {n: jnp.asarray(0.4 * rng.standard_normal(p.shape), jnp.float32) for n, p in parameters.items()}


SERIES = np.random.default_rng(1).standard_normal((B, T, C)).astype(np.float32)


def values(structure, parameters, series=SERIES, key=None):
    return structure.merge(parameters).values({"series": jnp.asarray(series)}, key=key)[0]


def computed(structure, parameters):
    return jax.jit(partial(values, structure))(parameters)


@pytest.mark.parametrize("levels", [pytest.param(1, marks=pytest.mark.slow), L])
def test_the_temporal_convolution_and_its_gradients_are_pytorchs(levels, torch):
    """Layers of `torch.nn` under PyTorch's own weight normalization, put together as the paper's figure 1 (b)."""
    structure, parameters = built("temporal_convolution", network={
        "kind": "temporal_convolution", "num_layers": levels, "kernel_width": W})  # fmt: skip
    wide = {n: torch.tensor(np.asarray(p, np.float64), requires_grad=True) for n, p in parameters.items()}
    get = wide.__getitem__

    def convolution(name, x, dilation):
        v = get(f"{name}.kernel").permute(2, 1, 0)
        normed = torch._weight_norm(v, get(f"{name}.gain")[:, None, None], 0)
        padded = torch.nn.functional.pad(x, (dilation * (W - 1), 0))
        return torch.relu(torch.nn.functional.conv1d(padded, normed, get(f"{name}.bias"), dilation=dilation))

    x = torch.tensor(SERIES, dtype=torch.float64).mT
    for level in range(levels):
        block = f"network.blocks.{level}"
        y = convolution(f"{block}.second", convolution(f"{block}.first", x, 2**level), 2**level)
        matrix = f"{block}.shortcut"
        if f"{matrix}.kernel" in wide:
            x = (x.mT @ get(f"{matrix}.kernel") + get(f"{matrix}.bias")).mT
        x = torch.relu(x + y)
    theirs = x.mT @ get("output.kernel") + get("output.bias")
    direction = np.random.default_rng(2).standard_normal((B, T, O))
    (theirs * torch.tensor(direction)).sum().backward()

    def loss(parameters):
        y = values(structure, parameters)
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), y

    gradients, ours = jax.jit(jax.grad(loss, has_aux=True))(parameters)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wide[name].grad.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def test_the_recurrent_network_is_pytorchs(torch):
    structure, parameters = built("recurrent", network={"kind": "recurrent", "cell": {"kind": "lstm"}})
    theirs = torch.nn.LSTM(C, D, batch_first=True).double()
    of = lambda name: torch.tensor(np.asarray(parameters[name], np.float64))
    cell = "network.layers.cells.0"
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(of(f"{cell}.input_kernel").mT)
        theirs.weight_hh_l0.copy_(of(f"{cell}.state_kernel").mT)
        theirs.bias_ih_l0.copy_(of(f"{cell}.bias"))
        theirs.bias_hh_l0.zero_()
        hidden, _ = theirs(torch.tensor(SERIES, dtype=torch.float64))
        expected = hidden @ of("output.kernel") + of("output.bias")
    np.testing.assert_allclose(computed(structure, parameters), expected.numpy(), atol=1e-5)


@pytest.mark.slow
def test_the_transformer_is_its_equations():
    """One layer in float64: a matrix in, pre-norm attention with rotary positions, a feed-forward, a final norm."""
    structure, parameters = built("transformer")
    w = {name.removeprefix("network."): np.asarray(p, np.float64) for name, p in parameters.items()}
    block = "stack.stack.segments.0"
    at = lambda name: w[f"{block}.{name}"][0]
    project = lambda name, x: x @ at(f"{name}.kernel") + at(f"{name}.bias")

    def norm(x, scale, bias):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias

    turned = lambda x: np.asarray(rotary(jnp.asarray(x[:, :, None], jnp.float32), jnp.arange(T)), np.float64)[:, :, 0]
    x = SERIES.astype(np.float64) @ w["input.kernel"] + w["input.bias"]
    y = norm(x, at("norm.scale"), at("norm.bias"))
    q, k, v = (project(f"self_attention.{name}", y) for name in ("query", "key", "value"))
    scores = np.einsum("BTH,BSH->BTS", turned(q), turned(k)) / np.sqrt(6)
    weights = np.exp(scores) * np.tri(T)
    x = x + project("self_attention.output", weights / weights.sum(-1, keepdims=True) @ v)
    y = norm(x, at("norm_2.scale"), at("norm_2.bias"))
    x = x + project("feed_forward.output", np.maximum(project("feed_forward.hidden", y), 0))
    expected = norm(x, w["stack.final_norm.scale"], w["stack.final_norm.bias"]) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(computed(structure, parameters), expected, atol=1e-4)


@pytest.mark.parametrize("kind", fast_are(["temporal_convolution"], list(NETWORKS)))
def test_the_future_has_no_gradient_and_the_past_within_reach_has(kind):
    structure, parameters = built(kind)
    moved = jax.jit(jax.jacobian(lambda series: values(structure, parameters, series).sum((0, 2))))(SERIES)
    moved = np.abs(np.asarray(moved)).max((1, 3))  # [T T]: position t against position s
    reach = 1 + 2 * (W - 1) * (2**L - 1) if kind == "temporal_convolution" else T
    t, s = np.indices((T, T))
    assert not moved[(s > t) | (t - s >= reach)].any()
    assert moved[12, 12 - min(reach, 13) + 1] > 0 and moved[12, 12] > 0


@pytest.mark.slow
def test_the_initialization_is_that_of_the_released_code():
    """Kernels and biases U(-n^-1/2, n^-1/2), gains the norms of the kernels, the shortcut N(0, 0.01^2)."""
    make = build_model(section("temporal_convolution", width=64), max_length=T)
    _, parameters, _ = split(make(rngs=nnx.Rngs(0)))
    for name, fan_in in (("first", W * C), ("second", W * 64)):
        kernel, limit = parameters[f"network.blocks.0.{name}.kernel"], fan_in**-0.5
        assert float(jnp.abs(kernel).max()) <= limit
        assert float(jnp.std(kernel)) == pytest.approx(limit / 3**0.5, rel=0.1)
        np.testing.assert_allclose(
            parameters[f"network.blocks.0.{name}.gain"], np.linalg.norm(np.asarray(kernel).reshape(-1, 64), axis=0),
            rtol=1e-5,
        )  # fmt: skip
        assert 0 < float(jnp.abs(parameters[f"network.blocks.0.{name}.bias"]).max()) <= limit
    assert float(jnp.std(parameters["network.blocks.0.shortcut.kernel"])) == pytest.approx(0.01, rel=0.3)


def test_spatial_dropout_zeroes_whole_channels():
    x = jnp.asarray(SERIES)[:, :, [0] * 400]
    y = np.asarray(jax.jit(lambda x: spatial_dropout(x, 0.25, jax.random.key(0)))(x))
    gone = (y == 0).all(1)
    assert gone.mean() == pytest.approx(0.25, abs=0.05) and not (y == 0).any(1)[~gone].any()
    np.testing.assert_allclose(y, np.where(gone[:, None], 0, np.asarray(x) / 0.75), rtol=1e-5)
    assert spatial_dropout(x, 0.25, None) is x


CHANGES = {
    "recurrent": {"num_layers": 1, "width": 6, "cell": {"kind": "vanilla"}},
    "temporal_convolution": {"num_layers": 3, "width": 6, "kernel_width": 4},
    "transformer": {
        "num_layers": 2, "num_heads": 2, "head_width": 8, "width": 6, "positions": {"kind": "sinusoidal"},
        "self_attention": {"kind": "standard"}, "norm": {"kind": "rms_norm"}, "feed_forward": {"hidden_width": 8},
        "stack": {"final_norm": False},
    },
}  # fmt: skip


def text(made):
    """The jaxpr of the start, and of the values in training."""
    make = build_model(made, max_length=T)
    structure, parameters, _ = split(make(rngs=nnx.Rngs(0)))
    shapes = {name: jax.ShapeDtypeStruct(p.shape, p.dtype) for name, p in parameters.items()}
    return str(jax.make_jaxpr(partial(values, structure))(shapes, SERIES, jax.random.key(0)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
def test_every_setting_matters(kind):
    first = text(section(kind))
    for name, value in CHANGES[kind].items():
        made = section(kind, width=value) if name == "width" else section(kind)
        if name != "width":
            made["network"] = {**made["network"], name: value}
        assert text(made) != first, name
    assert text(section(kind, dropout_rate=0.5)) != first and text(section(kind, outputs=6)) != first


def test_other_channels_are_refused():
    structure, parameters = built("recurrent")
    with pytest.raises(ValueError, match="channels: the model reads 2 of them; these series have 3"):
        values(structure, parameters, np.zeros((B, T, 3), np.float32))


def test_the_published_sizes():
    counts = {}
    for variant in ("adding", "copy"):
        config = load(f"series/memory:{variant}")
        make = build_model(config.given["model"], max_length=1, channels=config.given["channels"])
        shapes = jax.eval_shape(lambda make=make: split(make(rngs=nnx.Rngs(0)))[1])
        counts[variant] = sum(x.size for x in shapes.values())
    assert counts == {"adding": 70_369, "copy": 12_530}

"""Encoder classifiers against PyTorch's pre-norm encoder; two towers; the arena's released sizes by its code."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_experiment, load
from attention_research.layers.structure import abstract

D, N, F, S, V, C = 12, 3, 17, 9, 23, 4
CONFIG = "configs/classification/long_range.py"
SMALL = [("max_length", 11), ("vocabulary_size", V), ("model.width", D), ("model.num_heads", N),
         ("model.readout_width", 7), ("model.num_classes", C), ("model.feed_forward.hidden_width", F)]  # fmt: skip
LENGTHS = (S, 6, 1)


@pytest.fixture(scope="module")
def make(root):
    """Overrides -> (structure, random parameters, statistics) of the file's classifier."""

    def made(*overrides):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            config = load(f"{CONFIG}:listops", [*SMALL, *overrides])
        parts = build_experiment(config)
        structure, shapes, statistics = abstract(lambda rngs: parts.model(rngs=rngs))
        rng = np.random.default_rng(1)
        value = lambda x: rng.normal(size=x.shape) * (0.5 if x.ndim > 1 else 0.3)
        filled = {n: jnp.asarray(value(x) + n.endswith("scale"), x.dtype) for n, x in shapes.items()}
        return structure, filled, statistics

    return made


def tokens(seed):
    found = np.random.default_rng(seed).integers(1, V, (len(LENGTHS), S))
    for row, length in enumerate(LENGTHS):
        found[row, length:] = 0
    return jnp.asarray(found, jnp.int32)


def positions():
    angles = np.arange(S)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(S, D)


def pytorch_vectors(parameters, ids):
    """The mean over real positions of PyTorch's TransformerEncoder with these parameters, in float64."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(
        D, N, F, dropout=0.0, activation=lambda x: torch.nn.functional.gelu(x, approximate="tanh"), batch_first=True,
        norm_first=True, layer_norm_eps=1e-6, dtype=torch.float64,
    )  # fmt: skip
    norm = torch.nn.LayerNorm(D, eps=1e-6, dtype=torch.float64)
    model = torch.nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=False).eval()
    ours = {name: torch.tensor(np.asarray(value, np.float64)) for name, value in parameters.items()}
    state = {"norm.weight": ours["encoder.final_norm.scale"], "norm.bias": ours["encoder.final_norm.bias"]}
    block = "encoder.stack.segments.0."
    for number in range(2):
        mine = lambda name, number=number: ours[block + name][number]
        attention = [mine(f"self_attention.{name}.kernel").T for name in ("query", "key", "value")]
        found = {
            "self_attn.in_proj_weight": torch.cat(attention), "self_attn.in_proj_bias": torch.zeros(3 * D),
            "self_attn.out_proj.weight": mine("self_attention.output.kernel").T,
            "self_attn.out_proj.bias": torch.zeros(D),
            "linear1.weight": mine("feed_forward.hidden.kernel").T, "linear1.bias": mine("feed_forward.hidden.bias"),
            "linear2.weight": mine("feed_forward.output.kernel").T, "linear2.bias": mine("feed_forward.output.bias"),
            "norm1.weight": mine("norm.scale"), "norm1.bias": mine("norm.bias"),
            "norm2.weight": mine("norm_2.scale"), "norm2.bias": mine("norm_2.bias"),
        }  # fmt: skip
        state |= {f"layers.{number}.{name}": value for name, value in found.items()}
    model.load_state_dict(state)
    x = ours["embedding.table"][torch.tensor(np.asarray(ids), dtype=torch.long)] + torch.tensor(positions())
    padded = torch.tensor(np.asarray(ids) == 0)
    states = model(x, src_key_padding_mask=padded).detach().numpy()
    return np.stack([states[row, :length].mean(0) for row, length in enumerate(LENGTHS)])


def read_out(parameters, vectors):
    array = lambda name: np.asarray(parameters[name], np.float64)
    hidden = np.maximum(vectors @ array("hidden.kernel") + array("hidden.bias"), 0)
    scores = hidden @ array("output.kernel") + array("output.bias")
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


@pytest.mark.slow
def test_a_classifier_is_pytorchs_encoder_its_mean_and_two_layers(make, torch):
    structure, parameters, _ = make()
    ids = tokens(0)
    run = jax.jit(lambda p, ids: structure.merge(p).log_probabilities({"source": ids}))
    log_p, aux = run(parameters, ids)
    np.testing.assert_allclose(log_p, read_out(parameters, pytorch_vectors(parameters, ids)), atol=3e-5)
    np.testing.assert_allclose(aux["pooling"]["weights"][1, :6], 1 / 6, rtol=1e-6)
    longer, _ = run(parameters, jnp.pad(ids, ((0, 0), (0, 2))))
    np.testing.assert_allclose(longer, log_p, atol=1e-5)


@pytest.mark.slow
def test_two_towers_are_one_encoder(make, torch):
    structure, parameters, _ = make(("model.kind", "pair_classifier"))
    batch = {"source": tokens(1), "other": tokens(2)}
    direction = jnp.asarray(np.random.default_rng(3).normal(size=(len(LENGTHS), C)), jnp.float32)

    def value(p):
        log_p, _ = structure.merge(p).log_probabilities(batch)
        return jnp.sum(log_p * direction), log_p

    (_, log_p), gradients = jax.jit(jax.value_and_grad(value, has_aux=True))(parameters)
    a, b = (pytorch_vectors(parameters, batch[side]) for side in ("source", "other"))
    expected = read_out(parameters, np.concatenate([a, b, a * b, a - b], axis=1))
    np.testing.assert_allclose(log_p, expected, atol=3e-5)
    assert all(np.abs(gradient).max() > 1e-7 for gradient in gradients.values())


@pytest.mark.slow
def test_towers_have_independent_dropout(make):
    """With one key, the same sequence in both towers gets different dropout masks."""
    structure, parameters, _ = make(("model.kind", "pair_classifier"), ("model.dropout_rate", 0.5))
    seen = []
    model = structure.merge(parameters)
    readout = type(model).read_out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "read_out", lambda self, x: seen.append(x) or readout(self, x))
        same = {"source": tokens(1), "other": tokens(1)}

        @jax.jit
        def read(key):
            model.log_probabilities(same, key=key)
            return seen.pop()

        vectors = [read(key) for key in (None, jax.random.key(0))]
    apart = [np.abs(x[:, :D] - x[:, D : 2 * D]).max() for x in vectors]
    assert apart[0] == 0 < apart[1]


def released(vocabulary, D, N, layers, F, classes, attention):
    """Parameters by the arena's code (`transformer.py`, `common_layers.py`), without its CLS vector."""
    del N
    block = 2 * 2 * D + attention + (D * F + F) + (F * D + D)
    return vocabulary * D + layers * block + 2 * D + (D * F + F) + (F * classes + classes)


BASES = {"listops_base": (16, 512, 8, 6, 2048, 10), "text_base": (260, 256, 4, 4, 1024, 2)}
LENGTH = {"listops_base": 2000, "text_base": 1000}
#: Mechanism -> the parameters of its attention by the released code, and the number that ours has in addition.
ATTENTION = {
    "standard": lambda D, N, T: 4 * D * D,
    "linformer": lambda D, N, T: 4 * D * D + 16 * T,
    "performer": lambda D, N, T: 4 * D * D,
    "bigbird": lambda D, N, T: 4 * D * D,
    "linear": lambda D, N, T: 4 * D * D,
    "reformer": lambda D, N, T: 2 * D * D + D * D,  # the release has no output projection
    "sinkhorn": lambda D, N, T: 4 * D * D + D // N * math.ceil(T / 50),  # the release has 25 blocks, fewer than needed
    "block_local": lambda D, N, T: 4 * D * D,
    "dot_synthesizer": lambda D, N, T: 4 * D * D + N * T * T,
}


@pytest.mark.parametrize("base", ["text_base", pytest.param("listops_base", marks=pytest.mark.slow)])
def test_the_released_configurations_have_the_releases_parameters(base, root, monkeypatch):
    monkeypatch.chdir(root)
    V, D, N, *rest = BASES[base]
    settings = {"linformer": {"rank": 16, "sharing": "key_value"}}
    for kind, attention in ATTENTION.items():
        section = {"kind": kind, "use_bias": False, **settings.get(kind, {})}
        parts = build_experiment(load(f"{CONFIG}:{base}", [("model.self_attention", section)]))
        _, parameters, _ = abstract(lambda rngs, parts=parts: parts.model(rngs=rngs))
        found = sum(math.prod(x.shape) for x in parameters.values())
        assert found == released(V, D, N, *rest, attention(D, N, LENGTH[base])), kind


def test_each_tower_is_pooled_with_the_weights_of_its_own_tokens(make):
    structure, parameters, _ = make(("model.kind", "pair_classifier"), ("model.pooling", {"kind": "token_weight"}))
    (name,) = (name for name in parameters if name.startswith("pooling."))
    table = np.zeros(parameters[name].shape, np.float32)
    table.reshape(len(table), -1)[9] = 5.0
    source, other = (np.array([one], np.int32) for one in ([9, 6, 7, 8], [5, 6, 9, 8]))
    _, aux = structure.merge({**parameters, name: jnp.asarray(table)}).log_probabilities(
        {"source": jnp.asarray(source), "other": jnp.asarray(other)}
    )
    for found, tokens_of in ((aux, source), (aux["other"], other)):
        assert found["pooling"]["weights"][0].argmax() == (tokens_of[0] == 9).argmax()

"""Perceivers against Hugging Face's, slots against PyTorch; permutations, random starts, classifiers, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError, build_model
from attention_research.kernels.masks import padding_mask
from attention_research.layers.structure import abstract
from attention_research.models.architecture import architecture, lines

B, S, D, N, F, M = 2, 7, 12, 3, 17, 5
REAL = np.arange(S) < np.array([[S], [4]])
NORM = {"kind": "layer_norm", "epsilon": 1e-5}  # PyTorch's


def encoder_of(**section):
    """(structure, parameters) of the encoder of a classifier, with NumPy's random numbers as parameters."""
    given = {
        "kind": "encoder_classifier", "width": D, "num_heads": N, "num_layers": 2, "readout_width": 3,
        "feed_forward": {"kind": "dense", "hidden_width": F, "activation": "gelu_exact"}, "norm": NORM,
        "positions": {"kind": "none"}, "dropout_rate": 0.0, "encoder": section,
    }  # fmt: skip
    make = build_model(given, max_length=S, vocabulary_size=23)
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    rng = np.random.default_rng(1)
    return structure, {
        name: jnp.float32(rng.standard_normal(x.shape) * 0.4 + name.endswith("scale")) for name, x in shapes.items()
    }


def program(structure):
    """(parameters, x, real, key) -> (states, aux) of the encoder, compiled."""

    def run(p, x, real, key=None):
        return structure.merge(p).encoder(x, jnp.arange(S)[None], padding_mask(real), key=key)

    return jax.jit(run)


def inputs(seed=0):
    return jnp.float32(np.random.default_rng(seed).standard_normal((B, S, D)))


def theirs(torch, p, name, attention, number=None):
    """The state of one of Hugging Face's layers from ours. `number` is the layer in a stack."""
    array = lambda key: torch.tensor(np.asarray(p[f"{name}.{key}"] if number is None else p[f"{name}.{key}"][number]))
    norm = lambda ours, prefix: {
        f"{prefix}.weight": array(f"{ours}.scale"), f"{prefix}.bias": array(f"{ours}.bias"),
    }  # fmt: skip
    linear = lambda ours, prefix: {
        f"{prefix}.weight": array(f"{ours}.kernel").T, f"{prefix}.bias": array(f"{ours}.bias"),
    }  # fmt: skip
    found = {**norm("norm", "attention.self.layernorm1"), **norm("norm_2", "layernorm")}
    for part in ("query", "key", "value"):
        found |= linear(f"{attention}.{part}", f"attention.self.{part}")
    return {
        **found, **linear(f"{attention}.output", "attention.output.dense"),
        **linear("feed_forward.hidden", "mlp.dense1"), **linear("feed_forward.output", "mlp.dense2"),
    }  # fmt: skip


@pytest.mark.slow
def test_a_perceiver_is_hugging_faces(torch):
    modeling = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    structure, p = encoder_of(kind="perceiver", num_latents=M, blocks=2)
    config = modeling.PerceiverConfig(
        num_latents=M, d_latents=D, d_model=D, num_blocks=2, num_self_attends_per_block=2, num_self_attention_heads=N,
        num_cross_attention_heads=N, self_attention_widening_factor=1, cross_attention_widening_factor=1,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    peer = modeling.PerceiverEncoder(config, kv_dim=D).eval()
    for mlp in (peer.cross_attention.mlp, *(layer.mlp for layer in peer.self_attends)):  # widths other than D
        mlp.dense1, mlp.dense2 = torch.nn.Linear(D, F), torch.nn.Linear(F, D)
    state = theirs(torch, p, "encoder.reader", "cross_attention")
    state |= {
        "attention.self.layernorm2.weight": torch.tensor(np.asarray(p["encoder.input_norm.scale"])),
        "attention.self.layernorm2.bias": torch.tensor(np.asarray(p["encoder.input_norm.bias"])),
    }
    peer.cross_attention.load_state_dict(state)
    for number, layer in enumerate(peer.self_attends):
        layer.load_state_dict(theirs(torch, p, "encoder.stack.segments.0", "self_attention", number))
    x = inputs()
    visible = torch.where(torch.tensor(REAL)[:, None, None], 0.0, torch.finfo(torch.float32).min)
    latents = torch.tensor(np.asarray(p["encoder.latents"])).expand(B, M, D)
    with torch.no_grad():
        want = peer(latents, inputs=torch.tensor(np.asarray(x)), inputs_mask=visible).last_hidden_state.numpy()
    run = program(structure)
    got, aux = run(p, x, jnp.asarray(REAL))
    np.testing.assert_allclose(got, want, atol=2e-5)
    assert list(aux) == ["block_0", "block_1"] and "reader" not in aux["block_1"]
    order = np.random.default_rng(2).permutation(S)
    moved, _ = run(p, jnp.where(REAL[..., None], x, 9.0)[:, order], jnp.asarray(REAL[:, order]))
    np.testing.assert_allclose(moved, got, atol=1e-5)  # without positions, the inputs are a set


@pytest.mark.slow
def test_a_perceiver_reads_before_each_block_with_the_same_weights():
    """A block that reads is the encoder of one block, begun at the latents of the block before."""
    x, real = inputs(), jnp.asarray(REAL)
    twice, p = encoder_of(kind="perceiver", num_latents=M, blocks=2, reads="each_block")
    once, _ = encoder_of(kind="perceiver", num_latents=M, blocks=1, reads="each_block")
    first, _ = program(once)(p, x, real)
    want = [program(once)({**p, "encoder.latents": row}, x, real)[0][number] for number, row in enumerate(first)]
    np.testing.assert_allclose(program(twice)(p, x, real)[0], np.stack(want), atol=1e-5)
    said = [line for line in lines(architecture(twice.merge(p))) if "reads the input" in line]
    assert len(said) == 2


def slots_by_pytorch(torch, p, x, lengths, first, epsilon, iterations):
    """Algorithm 1 with PyTorch's layers, one example at a time."""
    p = {name.removeprefix("encoder."): torch.tensor(np.asarray(value)) for name, value in p.items()}
    norm = lambda name, z: torch.nn.functional.layer_norm(z, (D,), p[f"{name}.scale"], p[f"{name}.bias"], 1e-5)
    cell = torch.nn.GRUCell(D, D)  # the gates r, z, n
    state_bias = torch.cat([torch.zeros(2 * D), p["cell.state_bias"]])
    cell.load_state_dict(
        {
            "weight_ih": p["cell.input_kernel"].T, "weight_hh": p["cell.state_kernel"].T,
            "bias_ih": p["cell.input_bias"], "bias_hh": state_bias,
        }
    )  # fmt: skip
    found = []
    for row, length in enumerate(lengths):
        slots, z = torch.tensor(first[row]), norm("input_norm", torch.tensor(np.asarray(x[row, :length])))
        k, v = z @ p["key.kernel"], z @ p["value.kernel"]
        for _ in range(iterations):
            q = norm("slot_norm", slots) @ p["query.kernel"]
            attention = torch.softmax(k @ q.T / np.sqrt(D), dim=-1) + epsilon
            attention = attention / attention.sum(0, keepdim=True)
            slots = cell(attention.T @ v, slots)
            hidden = torch.nn.functional.gelu(
                norm("norm", slots) @ p["feed_forward.hidden.kernel"] + p["feed_forward.hidden.bias"]
            )
            slots = slots + hidden @ p["feed_forward.output.kernel"] + p["feed_forward.output.bias"]
        found.append(slots.detach().numpy())
    return np.stack(found)


@pytest.mark.slow
def test_slots_are_algorithm_1(torch):
    epsilon = 0.01
    structure, p = encoder_of(kind="slots", num_slots=M, iterations=3, epsilon=epsilon)
    run, x, real = program(structure), inputs(), jnp.asarray(REAL)
    got, aux = run(p, x, real)
    encoder = structure.merge(p).encoder
    first = np.asarray(encoder.first(B, None))
    np.testing.assert_array_equal(first[0], first[1])  # without a key, a row does not depend on the batch
    want = slots_by_pytorch(torch, p, x, (S, 4), first, epsilon, 3)
    np.testing.assert_allclose(got, want, atol=3e-5)
    assert aux["slots"]["attention_weights"].shape == (B, 1, M, S)
    order = np.random.default_rng(2).permutation(S)
    moved, _ = run(p, jnp.where(REAL[..., None], x, 9.0)[:, order], real[:, order])
    np.testing.assert_allclose(moved, got, atol=1e-5)  # without positions, the inputs are a set


@pytest.mark.slow
def test_slots_are_exchangeable_and_random_in_training():
    structure, p = encoder_of(kind="slots", num_slots=M)
    x, real = inputs(), jnp.asarray(REAL)
    encoder = structure.merge(p).encoder
    first = np.asarray(encoder.first(20_000, jax.random.key(1)))
    mean, deviation = p["encoder.mean"][0], np.exp(p["encoder.log_deviation"][0])
    np.testing.assert_allclose(first.mean((0, 1)), mean, atol=0.02 * deviation.max())
    np.testing.assert_allclose(first.std((0, 1)), deviation, rtol=0.02)
    run = program(structure)
    ones = [np.asarray(run(p, x, real, jax.random.key(seed))[0]) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(ones[0], ones[1])
    assert np.abs(ones[0] - ones[2]).max() > 1e-3
    noise = jax.random.normal(jax.random.key(0), (M, D))
    shuffled = noise[::-1]
    with pytest.MonkeyPatch.context() as patch:
        of = lambda order: structure.merge(p).encoder(x, jnp.arange(S)[None], padding_mask(real))[0]
        patch.setattr(jax.random, "normal", lambda *_: noise)
        one = of(noise)
        patch.setattr(jax.random, "normal", lambda *_: shuffled)
        np.testing.assert_allclose(of(shuffled), one[:, ::-1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["perceiver", "slots"])
def test_a_classifier_pools_the_latents(kind):
    """The mean over all latents, not over the first tokens."""
    size = {"perceiver": "num_latents", "slots": "num_slots"}[kind]
    structure, p = encoder_of(kind=kind, **{size: M})
    tokens = jnp.asarray(np.where(REAL, 5, 0), jnp.int32)

    def read(p):
        log_p, aux = structure.merge(p).log_probabilities({"source": tokens})
        return log_p, aux["pooling"]["weights"]

    log_p, weights = jax.jit(read)(p)
    assert log_p.shape == (B, 2)
    np.testing.assert_allclose(weights, np.full((B, M), 1 / M), rtol=1e-6)


@pytest.mark.slow
def test_the_latents_of_a_question_look_at_the_picture():
    section = {
        "kind": "image_question_classifier", "width": D, "num_layers": 1, "num_heads": N, "num_classes": 5,
        "readout_width": 11, "feed_forward": {"hidden_width": F}, "places": {"kind": "learned", "max_length": 9},
        "features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1},
        "encoder": {"kind": "perceiver", "num_latents": M},
    }  # fmt: skip
    make = build_model(section, side=5, channels=3, max_length=S, vocabulary_size=29)
    model = make(rngs=nnx.Rngs(0))
    batch = {"source": jnp.asarray(np.where(REAL, 5, 0), jnp.int32), "image": jnp.zeros((B, 5, 5, 3), jnp.uint8)}
    log_p, aux = jax.jit(lambda batch: model.log_probabilities(batch))(batch)
    assert log_p.shape == (B, 5) and aux["reader"]["attention_weights"].shape == (B, N, M, 9)
    np.testing.assert_allclose(aux["pooling"]["weights"].sum(1), 1, rtol=1e-5)


def test_a_perceiver_reads_with_attention_that_knows_its_depth():
    structure, p = encoder_of(kind="perceiver", cross_attention={"kind": "differential"})
    states, aux = program(structure)(p, inputs(), REAL)
    assert states.shape[0] == B and np.isfinite(states).all() and "reader" in aux["block_0"]


def test_slots_lose_no_loss_of_experts():
    experts = {"kind": "switch_released", "num_experts": 2, "expert": {"hidden_width": F}}
    structure, p = encoder_of(kind="slots", feed_forward=experts)
    with pytest.raises(ConfigError, match="^feed_forward: slots do not pass on its loss, metrics; use one without"):
        program(structure)(p, inputs(), REAL)


def test_what_cannot_be_is_refused(small_config):
    for kind, message in (("perceiver", "a state for each latent"), ("slots", "a state for each slot")):
        with pytest.raises(ConfigError, match="packed rows hold several sentences"):
            small_config(encoder={"kind": kind}).override([("data.batching", {"kind": "packed"})])
        with pytest.raises(ConfigError, match=f"model.encoder.kind: {kind} gives {message}"):
            small_config(kind="transformer_encoder", encoder={"kind": kind})
        with pytest.raises(ConfigError, match=f"model.encoder.kind: {kind} gives {message}"):
            small_config(kind="cloze_classifier", encoder={"kind": kind})
        structure, p = encoder_of(kind=kind)
        with pytest.raises(ValueError, match="without packed rows"):
            structure.merge(p).encoder(inputs(), jnp.arange(S)[None], jnp.ones((B, 1, S, S), bool))

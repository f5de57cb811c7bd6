"""Oracle: Hugging Face's Marian and T5 in PyTorch, random weights converted here: logits, gradients, beam search."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build
from attention_research.decoding import HuggingFaceBeamSearch
from attention_research.layers.structure import abstract
from attention_research.tokens import BOS, EOS, PAD

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")

V, LAYERS, LENGTH = 53, 2, 13
TOKENS = {"vocab_size": V, "pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS}


class Marian:
    """Post-norm, sinusoids in two halves, embeddings scaled, swish, one table, a bias on the logits."""

    D, N, F = 20, 5, 29
    SECTION = {
        "kind": "transformer",
        "width": D,
        "num_heads": N,
        "num_layers": LAYERS,
        "feed_forward": {"hidden_width": F, "activation": "swish"},
        "norm": {"kind": "layer_norm", "epsilon": 1e-5},
        "positions": {"kind": "sinusoidal_halves"},
        "vocabulary": {"kind": "shared_with_bias"},
    }
    SPECIAL = {"vocabulary.table": "model.shared.weight", "vocabulary.bias": "final_logits_bias"}
    SEED, TABLE, LAST_GAIN = 2, 0.3, 2.4
    LAST_NORM = f"model.decoder.layers.{LAYERS - 1}.final_layer_norm.weight"

    @classmethod
    def theirs(cls):
        config = transformers.MarianConfig(
            **TOKENS, d_model=cls.D, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=cls.N,
            decoder_attention_heads=cls.N, encoder_ffn_dim=cls.F, decoder_ffn_dim=cls.F, activation_function="swish",
            scale_embedding=True, max_position_embeddings=LENGTH, forced_eos_token_id=None,
        )  # fmt: skip
        model = transformers.MarianMTModel(config)
        model.final_logits_bias.requires_grad_()
        return model

    @staticmethod
    def layers():
        """(our layer, their name of layer {}, whether transposed) for every array that each layer has."""
        for side, norms in (("encoder", ("self_attn", "final")), ("decoder", ("self_attn", "encoder_attn", "final"))):
            ours, theirs = f"{side}.stack.segments.0", f"model.{side}.layers.{{}}"
            for attention, name in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
                for part, short in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
                    if name in norms:
                        yield f"{ours}.{attention}.{part}.kernel", f"{theirs}.{name}.{short}_proj.weight", True
                        yield f"{ours}.{attention}.{part}.bias", f"{theirs}.{name}.{short}_proj.bias", False
            for part, name in (("hidden", "fc1"), ("output", "fc2")):
                yield f"{ours}.feed_forward.{part}.kernel", f"{theirs}.{name}.weight", True
                yield f"{ours}.feed_forward.{part}.bias", f"{theirs}.{name}.bias", False
            for norm, name in zip(("norm", "norm_2", "norm_3"), norms, strict=False):
                yield f"{ours}.{norm}.scale", f"{theirs}.{name}_layer_norm.weight", False
                yield f"{ours}.{norm}.bias", f"{theirs}.{name}_layer_norm.bias", False


class T5:
    """Pre-norm RMS, no biases, relative biases owned by each stack, no scale, one unscaled table, logits D^-0.5."""

    D, N, H, F, BUCKETS, DISTANCE = 16, 3, 6, 23, 8, 9
    SUBLAYERS = {"encoder": ("self_attention", "feed_forward"),
                 "decoder": ("self_attention", "cross_attention", "feed_forward")}  # fmt: skip
    PRE_NORM = {
        side: {"steps": tuple(("norm", s, "dropout", "residual") for s in layers), "final_norm": True}
        for side, layers in SUBLAYERS.items()
    }
    SECTION = {
        "kind": "transformer",
        "width": D,
        "num_heads": N,
        "head_width": H,
        "num_layers": LAYERS,
        "self_attention": {"kind": "t5", "use_bias": False, "num_buckets": BUCKETS, "max_distance": DISTANCE},
        "feed_forward": {"hidden_width": F, "use_bias": False},
        "norm": {"kind": "rms_norm"},
        "positions": {"kind": "none"},
        "vocabulary": {"kind": "t5"},
        "encoder": PRE_NORM["encoder"],
        "decoder": {**PRE_NORM["decoder"], "cross_attention": {"kind": "unscaled", "use_bias": False}},
    }
    SPECIAL = {
        "vocabulary.table": "shared.weight",
        "encoder.final_norm.scale": "encoder.final_layer_norm.weight",
        "decoder.final_norm.scale": "decoder.final_layer_norm.weight",
        "encoder.shared.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder.self_shared.table": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    }
    SEED, TABLE, LAST_GAIN = 1, 0.1, 30.0
    LAST_NORM = "decoder.final_layer_norm.weight"

    @classmethod
    def theirs(cls):
        config = transformers.T5Config(
            **TOKENS, d_model=cls.D, d_kv=cls.H, d_ff=cls.F, num_layers=LAYERS, num_heads=cls.N,
            relative_attention_num_buckets=cls.BUCKETS, relative_attention_max_distance=cls.DISTANCE,
            feed_forward_proj="relu",
        )  # fmt: skip
        return transformers.T5ForConditionalGeneration(config)

    @classmethod
    def layers(cls):
        """(our layer, their name of layer {}, whether transposed) for every array that each layer has."""
        names = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"}
        for side, sublayers in cls.SUBLAYERS.items():
            for number, (sublayer, norm) in enumerate(zip(sublayers, ("norm", "norm_2", "norm_3"), strict=False)):
                ours, theirs = f"{side}.stack.segments.0", f"{side}.block.{{}}.layer.{number}"
                yield f"{ours}.{norm}.scale", f"{theirs}.layer_norm.weight", False
                if sublayer == "feed_forward":
                    for part, name in (("hidden", "wi"), ("output", "wo")):
                        yield f"{ours}.feed_forward.{part}.kernel", f"{theirs}.DenseReluDense.{name}.weight", True
                else:
                    for part in ("query", "key", "value", "output"):
                        name = f"{names[sublayer]}.{part[0]}.weight"
                        yield f"{ours}.{sublayer}.{part}.kernel", f"{theirs}.{name}", True


def trained_by(model) -> dict[str, torch.Tensor]:
    """Their parameters by name, tied ones once. Marian's logit bias is a buffer and its positions are frozen."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: x for name, x in named.items() if x.requires_grad}


def randomised(kind):
    """Their model without parameters at their initial 0 or 1, and with beams that find different words and ends.

    With a tied table a random model repeats its input. The table is therefore small, the layers' contributions are not,
    and the gain of the last norm compensates. Marian's bias removes what all positions have in common. The seeds are
    chosen for beams of several lengths, which `test_beams_are_theirs` asserts.
    """
    torch.manual_seed(kind.SEED)
    model = kind.theirs().eval()
    named = trained_by(model)
    with torch.no_grad():
        for name, x in named.items():
            norm = name.endswith("norm.weight")
            scale = 2 * x.shape[-1] ** -0.5 if x.ndim == 2 else 0.3
            x.normal_(mean=float(norm), std=kind.TABLE if name == kind.SPECIAL["vocabulary.table"] else scale)
        named[kind.LAST_NORM].mul_(kind.LAST_GAIN)
        if kind is Marian:
            ids = torch.randint(4, V, (2, 64, LENGTH))
            named["final_logits_bias"] -= model(input_ids=ids[0], decoder_input_ids=ids[1]).logits.mean((0, 1))
            named["final_logits_bias"][0, EOS] += 3
        else:
            named["shared.weight"][EOS] *= 3.5
    return model


def converted(kind, of) -> dict[str, np.ndarray]:
    """Our name -> `of` their name (an array), in our layout: layers stacked, kernels [in out]."""
    special = {ours: of(theirs) for ours, theirs in kind.SPECIAL.items()}
    layered = {
        ours: np.stack([of(theirs.format(l)).T if transposed else of(theirs.format(l)) for l in range(LAYERS)])
        for ours, theirs, transposed in kind.layers()
    }
    assert not special.keys() & layered.keys()
    return {**special, **layered}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """At these sizes PyTorch's threads cost more time than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=[pytest.param(Marian, marks=pytest.mark.slow), T5], ids=["marian", "t5"])
def pair(request, small_config):
    """The same weights in both models: kind, their model, our structure and parameters."""
    kind = request.param
    section = small_config(vocabulary_size=V, max_length=LENGTH, **kind.SECTION).resolved["model"]
    constructor = build(section, "model")
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    model, used = randomised(kind), []
    named = trained_by(model)

    def of(name):
        used.append(name)
        return named[name].detach().numpy()

    weights = converted(kind, of)
    assert sorted(used) == sorted(named), "each of their parameters should be used exactly once"
    assert weights.keys() == shapes.keys(), "each of ours should be set exactly once"
    parameters = {name: jnp.asarray(x.reshape(shapes[name].shape)) for name, x in weights.items()}
    return SimpleNamespace(kind=kind, model=model, structure=structure, parameters=parameters)


def sentences(rows: int, longest: int, seed: int) -> np.ndarray:
    """Random tokens, EOS, then padding: rows of longest, longest - 1, ... tokens (at least 2), repeatedly."""
    tokens = np.random.default_rng(seed).integers(4, V, (rows, longest))
    for row in range(rows):
        length = longest - row % (longest - 1)
        tokens[row, length - 1], tokens[row, length:] = EOS, PAD
    return tokens


def test_logits_and_gradients_are_theirs(pair):
    source, target = sentences(5, 11, seed=1), sentences(5, 7, seed=2)
    real = target != PAD
    shifted = np.concatenate([np.full((5, 1), BOS), target[:, :-1]], axis=1)
    their_logits = pair.model(
        input_ids=torch.tensor(source), attention_mask=torch.tensor(source != PAD).long(),
        decoder_input_ids=torch.tensor(shifted), decoder_attention_mask=torch.tensor(shifted != PAD).long(),
    ).logits  # fmt: skip
    their_loss = torch.nn.functional.cross_entropy(
        their_logits[torch.tensor(real)], torch.tensor(target[real]), reduction="sum"
    )
    pair.model.zero_grad()
    their_loss.backward()

    batch = {"source": jnp.asarray(source, jnp.int32), "target": jnp.asarray(target, jnp.int32)}

    def loss(parameters):
        model = pair.structure.merge(parameters)
        values, _ = model.log_likelihood(batch)
        memory = model.encode({"tokens": batch["source"]})
        hidden, _ = model.decoder(
            model.vocabulary.target(jnp.asarray(shifted, jnp.int32)), jnp.arange(7, dtype=jnp.int32)[None], None,
            memory["hidden"], (batch["source"] != PAD)[:, None, None, :],
        )  # fmt: skip
        return -jnp.sum(values["log_likelihood"], where=values["mask"]), model.vocabulary.logits(hidden)

    (our_loss, our_logits), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(pair.parameters)
    np.testing.assert_allclose(np.asarray(our_logits)[real], their_logits.detach().numpy()[real], rtol=0, atol=1e-4)
    np.testing.assert_allclose(our_loss, their_loss.item(), rtol=1e-5)
    named = trained_by(pair.model)
    for name, want in converted(pair.kind, lambda name: named[name].grad.numpy()).items():
        largest = np.abs(want).max()
        # A key's bias shifts all scores of a query alike, so its gradient is 0 up to rounding.
        assert largest > 1e-2 or name.endswith("attention.key.bias"), name
        difference = np.abs(np.asarray(gradients[name]) - want.reshape(gradients[name].shape)).max()
        assert difference < 1e-4 * max(1.0, largest), name


#: Our settings for their length rule. `forced_eos` is their forced_eos_token_id.
RULES = {
    "their_defaults": {"length_penalty": 1.0, "early_stopping": False, "forced_eos": False},
    "a_true_bound": {"length_penalty": 0.3, "early_stopping": "never", "forced_eos": False},
    "first_come": {"length_penalty": 0.6, "early_stopping": True, "forced_eos": True},
}


@pytest.mark.parametrize("rule", [pytest.param("their_defaults", marks=pytest.mark.slow), "a_true_bound", "first_come"])
def test_beams_are_theirs(pair, rule):
    """All four hypotheses of every source, and their scores."""
    settings, source = RULES[rule], sentences(8, 11, seed=3)
    with torch.no_grad():
        theirs = pair.model.generate(
            input_ids=torch.tensor(source), attention_mask=torch.tensor(source != PAD).long(),
            num_beams=4, num_return_sequences=4, max_new_tokens=LENGTH, do_sample=False, suppress_tokens=[PAD, BOS],
            length_penalty=settings["length_penalty"], early_stopping=settings["early_stopping"],
            forced_eos_token_id=EOS if settings["forced_eos"] else None,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    tokens = theirs.sequences[:, 1:].numpy()  # without the start token
    ended = np.cumsum(tokens == EOS, axis=1)
    tokens = np.where(ended - (tokens == EOS) > 0, PAD, tokens)  # they fill with EOS, since their PAD is 0
    tokens = np.pad(tokens, ((0, 0), (0, LENGTH - tokens.shape[1]))).reshape(8, 4, LENGTH)

    search = HuggingFaceBeamSearch(beam_size=4, **settings)
    run = jax.jit(lambda p, tokens: search(pair.structure.merge(p), {"tokens": tokens}, max_length=LENGTH))
    ours = run(pair.parameters, jnp.asarray(source, jnp.int32))
    lengths = (tokens != PAD).sum(-1)
    assert len(np.unique(lengths)) > 4 and len(np.unique(tokens)) > 10, "the beams are too alike to distinguish rules"
    np.testing.assert_array_equal(ours.tokens, tokens)
    np.testing.assert_array_equal(ours.lengths, lengths)
    np.testing.assert_allclose(ours.scores, theirs.sequences_scores.numpy().reshape(8, 4), rtol=0, atol=1e-4)

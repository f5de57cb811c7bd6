"""A source and a target in one stack against Hugging Face's GPT-2, whose mask defines what a source may see."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.decoding import BeamSearch
from attention_research.tasks.auxiliary import auxiliary_loss
from attention_research.tokens import BOS, PAD
from tests.models.causal_kinds import CAUSAL_KINDS
from tests.models.facts import QUICKLY, batch_of
from tests.tiers import fast_are

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")

#: Kinds whose layers depend on each other, on their depth or on an auxiliary loss, or have a state. The prompts of all
#: kinds are tested in their layers: `tests/layers/test_softmax_kinds.py`, `test_state_layers.py` and `test_hyena.py`.
REPRESENTATIVE = ("value_residual", "indexed", "lightning", "gated_deltanet")
V, D, N, F, LAYERS, LENGTH = 29, 12, 3, 17, 2, 13
T5 = {"positions": {"kind": "none"}, "feed_forward": {"hidden_width": F}}
KINDS = {
    "causal": {"positions": {"kind": "learned"}, "vocabulary": {"kind": "t5"}},
    "prefix": {"positions": {"kind": "learned"}, "vocabulary": {"kind": "t5"}, "decoder": {"kind": "prefix"}},
    "causal-t5": {**T5, "self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9}},
    "prefix-t5": {
        **T5,
        "self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9},
        "decoder": {"kind": "prefix", "unroll": True},
    },
    **{
        f"prefix-{kind}": {**T5, "self_attention": {"kind": kind}, "decoder": {"kind": "prefix"}}
        for kind in ("alibi", "rotary")
    },
    **{
        f"{place}-{kind}": {
            **T5,
            "self_attention": {"kind": kind, **CAUSAL_KINDS[kind]},
            "decoder": {"kind": place},
        }
        for place, kinds in (("causal", REPRESENTATIVE), ("prefix", ("kerple", "length_scaled", "talking_heads")))
        for kind in kinds
    },
    "prefix-relative": {"self_attention": {"kind": "relative", "max_distance": 3}, "decoder": {"kind": "prefix"}},
}
#: The others are slow.
QUICK = ("causal",)


@pytest.fixture(scope="module")
def batch():
    return batch_of(np.random.default_rng(5))


@pytest.fixture(scope="module", params=fast_are(QUICK, [*KINDS]))
def point(request, small, batch):
    """The quantities that the tests check, compiled once for each kind."""
    structure, parameters = small(kind="language_model", dropout_rate=0.0, **KINDS[request.param])
    more = {"source": ((0, 0), (0, 2)), "target": ((0, 0), (0, 3))}
    wide = {side: jnp.pad(batch[side][1:2], padding) for side, padding in more.items()}

    def loss(p):
        values, aux = structure.merge(p).log_likelihood(batch)
        extra = auxiliary_loss(aux, values["mask"])
        loss = -jnp.sum(values["log_likelihood"], where=values["mask"])
        return loss if extra is None else loss + extra, values

    def stepped(p):
        model = structure.merge(p)

        def step(carry, target):
            cache, log_p, _ = model.step(*carry)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], 1)[:, 0]

        first = (model.start(model.encode({"tokens": batch["source"]}), LENGTH), jnp.full(3, BOS, jnp.int32))
        return jax.lax.scan(step, first, batch["target"].T)[1].T

    def everything(p):
        (_, values), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        alone = structure.merge(p).log_likelihood(wide)[0]["log_likelihood"]
        return {**values, "gradients": gradients, "stepped": stepped(p), "alone": alone}

    found = jax.jit(everything, compiler_options=QUICKLY)(parameters)
    return {"kind": request.param, "parameters": parameters, **jax.tree.map(np.asarray, found)}


def test_steps_after_a_source_are_the_full_forward(point):
    stepped, full = (point[name][point["mask"]] for name in ("stepped", "log_likelihood"))
    np.testing.assert_allclose(stepped, full, rtol=1e-5, atol=3e-5)


def test_a_row_alone_with_more_padding_is_the_row_in_the_batch(point, batch):
    real = np.asarray(batch["target"][1] != PAD)
    np.testing.assert_allclose(point["alone"][0, : len(real)][real], point["log_likelihood"][1][real], atol=3e-5)


def test_every_parameter_has_a_gradient(point):
    """This includes the buckets of later keys, which a causal model does not use."""
    dead = {name for name, g in point["gradients"].items() if np.abs(g).max() < 1e-7}
    assert not {name for name in dead if not name.endswith("attention.key.bias")}
    if point["kind"] == "prefix-t5":
        ahead = slice(5, 8)  # of 8 buckets, those of keys after the query
        assert (np.abs(point["gradients"]["decoder.shared.table"][ahead]).max(1) > 1e-9).all()


def theirs(parameters):
    """GPT-2 with our parameters. Its logits are not scaled by D^-0.5, so its last norm is scaled instead."""
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=2 * LENGTH, n_embd=D, n_layer=LAYERS, n_head=N, n_inner=F, activation_function="relu",
        layer_norm_epsilon=1e-6, attn_implementation="eager", attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).double().eval()
    ours = {name: torch.tensor(np.asarray(x, np.float64)) for name, x in parameters.items()}
    layer = "decoder.stack.segments.0"
    weights = {"transformer.wte.weight": ours["vocabulary.table"], "lm_head.weight": ours["vocabulary.table"]}
    weights["transformer.wpe.weight"] = ours["decoder.positions.table"]
    for part, name in (("scale", "weight"), ("bias", "bias")):
        weights[f"transformer.ln_f.{name}"] = ours[f"decoder.final_norm.{part}"] * D**-0.5
    for l, (part, name) in itertools.product(range(LAYERS), (("kernel", "weight"), ("bias", "bias"))):
        block, of = f"transformer.h.{l}", lambda child, part=part, l=l: ours[f"{layer}.{child}.{part}"][l]
        projections = [of(f"self_attention.{one}") for one in ("query", "key", "value")]
        weights[f"{block}.attn.c_attn.{name}"] = torch.cat(projections, -1)
        weights[f"{block}.attn.c_proj.{name}"] = of("self_attention.output")
        weights[f"{block}.mlp.c_fc.{name}"] = of("feed_forward.hidden")
        weights[f"{block}.mlp.c_proj.{name}"] = of("feed_forward.output")
        norm = "scale" if part == "kernel" else "bias"
        for number, child in (("1", "norm"), ("2", "norm_2")):
            weights[f"{block}.ln_{number}.{name}"] = ours[f"{layer}.{child}.{norm}"][l]
    model.load_state_dict(weights)
    return model


@pytest.mark.slow
def test_likelihoods_are_those_of_gpt2(point, batch):
    """Each row alone: its source, BOS and its target, without padding. The mask defines a prefix."""
    if point["kind"] not in ("causal", "prefix"):
        pytest.skip("GPT-2 supports learned positions only")
    model = theirs(point["parameters"])
    for row, (source, target) in enumerate(zip(*map(np.asarray, batch.values()), strict=True)):
        source, target = source[source != PAD], target[target != PAD]
        tokens, first = np.concatenate([source, [BOS], target[:-1]]), len(source)
        seen = np.tri(len(tokens), dtype=bool)
        if point["kind"] == "prefix":
            seen[:first, :first] = True
        mask = torch.tensor(np.where(seen, 0.0, -1e30))[None, None]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor(tokens)[None].long(), attention_mask=mask).logits[0, first:]
        expected = torch.log_softmax(logits, -1)[torch.arange(len(target)), torch.tensor(target).long()]
        np.testing.assert_allclose(point["log_likelihood"][row][: len(target)], expected.numpy(), atol=2e-5)


@pytest.mark.slow
def test_a_causal_source_does_not_look_ahead_and_a_prefix_does(small, batch):
    """By gradient of the state of a source's first token with respect to the embedding of its last."""
    for kind, sees in (("causal", False), ("prefix", True)):
        structure, parameters = small(kind="language_model", decoder={"kind": kind})
        decoder, x = structure.merge(parameters).decoder, jnp.asarray(np.random.default_rng(2).normal(size=(1, 7, 12)))

        def first(x, decoder=decoder):
            hidden, _ = decoder(x, jnp.arange(7)[None], jnp.ones((1, 1, 1, 7), bool), prompt=4)
            return jnp.sum(jnp.sin(hidden[:, 0]))

        reached = np.abs(jax.jit(jax.grad(first))(x.astype(jnp.float32))).max((0, 2)) > 0
        assert reached.tolist() == [True] + 3 * [sees] + 3 * [False]


@pytest.mark.slow
def test_beam_scores_equal_the_full_forward_pass(small, batch):
    """Prefixes of one source are reordered during the search, and so are the caches that the source filled."""
    structure, parameters = small(kind="language_model", vocabulary={"kind": "separate"})
    parameters = {name: x if name.endswith("bias") else 3 * x for name, x in parameters.items()}

    @jax.jit
    def both(parameters):
        model = structure.merge(parameters)
        found = BeamSearch(beam_size=3, alpha=0.6, exact="all")(model, {"tokens": batch["source"]}, max_length=11)
        rows = {"source": jnp.repeat(batch["source"], 3, 0), "target": found.tokens.reshape(9, 11)}
        values, _ = model.log_likelihood(rows)
        return found, jnp.sum(values["log_likelihood"], 1, where=values["mask"]).reshape(3, 3)

    found, prices = both(parameters)
    np.testing.assert_allclose(found.log_probabilities, prices, rtol=1e-4)


def test_invalid_settings_are_refused(small, small_config, batch):
    with pytest.raises(ConfigError, match="synthesizer"):
        small_config(kind="language_model", self_attention={"kind": "dense_synthesizer"})
    with pytest.raises(ConfigError, match=r"decoder.steps: no step 'cross_attention' .* mean 'self_attention'"):
        small_config(kind="language_model", decoder={"steps": (("cross_attention", "residual"),)})
    structure, parameters = small(kind="language_model")
    with pytest.raises(ValueError, match="packed rows hold several sources"):
        structure.merge(parameters).log_likelihood({**batch, "source_segments": batch["source"]})

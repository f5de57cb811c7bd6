"""Universal Transformer, Funnel, transparent attention: whole models against float64 NumPy written from the papers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError
from attention_research.layers.pair_mean import PairMean, halved
from attention_research.layers.residuals.gate import GRUGate
from attention_research.layers.structure import split
from attention_research.tasks.auxiliary import auxiliary_loss
from attention_research.tokens import BOS

HEADS, BUCKETS, FARTHEST = 3, 8, 9
SUBLAYERS = {"encoder": ("self_attention", "feed_forward"),
             "decoder": ("self_attention", "cross_attention", "feed_forward")}  # fmt: skip
T5 = {
    "positions": {"kind": "none"},
    "self_attention": {"kind": "t5", "num_buckets": BUCKETS, "max_distance": FARTHEST, "use_bias": False},
    "decoder": {"cross_attention": {"kind": "unscaled", "use_bias": False}},
}


def pre_norm(encoder=None, decoder=None, **sections):
    """The sections of a pre-norm model with relative biases, as in Narang et al."""
    sides = {"encoder": encoder or {}, "decoder": {**T5["decoder"], **(decoder or {})}}
    steps = {
        side: {"steps": [("norm", s, "dropout", "residual") for s in SUBLAYERS[side]], "final_norm": True}
        for side in sides
    }
    return {**T5, **sections, **{side: {**steps[side], **sides[side]} for side in sides}}


UNIVERSAL = {
    side: {"stack": {"kind": "universal", "before": before, "after": after}, "residual": "gru_gate"}
    for side, before, after in (("encoder", 1, 0), ("decoder", 0, 1))
}
APPLICATIONS, STEPS = 3, {"encoder": (1, 2), "decoder": (0, 1)}
ADAPTIVE = {"stack": {"kind": "adaptive_universal", "threshold": 0.8, "ponder_weight": 0.5}}
VARIANTS = {
    "universal": pre_norm(**UNIVERSAL, num_layers=APPLICATIONS),
    "adaptive": pre_norm(ADAPTIVE, ADAPTIVE, num_layers=4),
    "funnel": pre_norm({"kind": "funnel", "num_layers": 6}),
    "funnel_of_two": pre_norm({"kind": "funnel", "num_layers": 2, "blocks": 2}),
    "transparent": pre_norm({"kind": "transparent", "num_layers": 3, "decoder_layers": 2}),
}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    source, target = rng.integers(4, 29, (4, 11)), rng.integers(4, 29, (4, 7))
    for row, (real_source, real_target) in enumerate([(11, 7), (10, 5), (9, 3), (1, 1)]):
        source[row, real_source:], target[row, real_target:] = 0, 0
    return {"source": source, "target": target}


# The model in NumPy. `p` holds the arrays of one model or of one layer.


def under(p, prefix, layer=None):
    """The arrays under a prefix. Of stacked arrays, those of one layer."""
    found = {name.removeprefix(f"{prefix}."): x for name, x in p.items() if name.startswith(f"{prefix}.")}
    return found if layer is None else {name: x[layer] for name, x in found.items()}


def layer_norm(p, name, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p[f"{name}.scale"] + p[f"{name}.bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def bucket(distance, bidirectional):
    """Raffel et al. 2020, for the distance j - i: half of the buckets are exact, the others logarithmic."""
    buckets, offset = BUCKETS, 0
    if bidirectional:
        buckets //= 2
        offset = buckets * (distance > 0)
    distance = abs(distance) if bidirectional else max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return offset + distance
    scaled = np.log(distance / exact) / np.log(FARTHEST / exact) * (buckets - exact)
    return offset + min(exact + int(scaled), buckets - 1)


def attention(p, name, x, memory, mask, table=None, causal=False):
    """Unscaled attention, with relative biases if there is a table; mask [B S]."""
    heads = lambda y: y.reshape(*y.shape[:2], HEADS, -1)
    q, k, v = (heads(y @ p[f"{name}.{part}.kernel"]) for part, y in (("query", x), ("key", memory), ("value", memory)))
    scores = np.einsum("btnh,bsnh->bnts", q, k)
    t, s = scores.shape[2:]
    if table is not None:
        ids = np.array([[bucket(j - i, not causal) for j in range(s)] for i in range(t)])
        scores = scores + table[ids].transpose(2, 0, 1)
    visible = mask[:, None, None, :] & (np.tril(np.ones((t, s), bool)) if causal else True)
    weights = np.where(visible, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return np.einsum("bnts,bsnh->btnh", weights, v).reshape(*x.shape) @ p[f"{name}.output.kernel"]


def feed_forward(p, x):
    hidden = np.maximum(x @ p["feed_forward.hidden.kernel"] + p["feed_forward.hidden.bias"], 0)
    return hidden @ p["feed_forward.output.kernel"] + p["feed_forward.output.bias"]


def gated(p, name, x, y):
    """x + (1 - u) y + u c, as in the docstring of `layers.residuals.gate`."""
    g = lambda value: layer_norm(p, f"{name}.norm", value)
    of = lambda gate, *two: sigmoid(np.concatenate(two, -1) @ p[f"{name}.{gate}.kernel"] + p[f"{name}.{gate}.bias"])
    u, r = of("update", g(x), g(y)), of("reset", g(g(x)), g(g(y)))
    return x + (1 - u) * y + u * of("candidate", g(r * x), g(y))


def pooled(x, real):
    """The mean of the real states of each pair, and whether there are any, by a loop over rows and pairs."""
    length = (x.shape[1] + 1) // 2
    means, there = np.zeros((len(x), length, x.shape[2])), np.zeros((len(x), length), bool)
    for row in range(len(x)):
        for i in range(length):
            pair = [j for j in (2 * i, 2 * i + 1) if j < x.shape[1] and real[row, j]]
            there[row, i] = bool(pair)
            if pair:
                means[row, i] = x[row, pair].mean(0)
    return means, there


def layer(p, x, real, table, *, memory=None, memory_real=None, pools=False):
    """One pre-norm layer of the encoder or, with a memory, of the decoder: (y, which positions are real)."""
    sublayers = [lambda y: attention(p, "self_attention", y, y, real, table, memory is not None)]
    if memory is not None:
        sublayers.append(lambda y: attention(p, "cross_attention", y, memory, memory_real))
    sublayers.append(lambda y: feed_forward(p, y))
    for number, sublayer in enumerate(sublayers):
        end = "" if number == 0 else f"_{number + 1}"
        y = sublayer(layer_norm(p, f"norm{end}", x))
        x = gated(p, f"residual{end}", x, y) if f"residual{end}.norm.scale" in p else x + y
        if pools and number == 0:
            x, real = pooled(x, real)
    return x, real


def encode(variant, p, x, real):
    """(the memory of each decoder layer, which of its positions are real)."""
    table, stack = p["shared.table"], lambda number, l: under(p, f"stack.segments.{number}", l)
    if variant == "transparent":
        streams = [x]
        for l in range(3):
            streams.append(layer(stack(0, l), streams[-1], real, table)[0])
        streams[-1] = layer_norm(p, "final_norm", streams[-1])
        shares = np.exp(p["weights"]) / np.exp(p["weights"]).sum(0)
        return [sum(shares[i, j] * streams[i] for i in range(4)) for j in range(2)], real
    if variant == "adaptive":
        x, _ = adaptive(p, x, lambda one, y: layer(one, y, real, table)[0])
        return [layer_norm(p, "final_norm", x)], real
    if variant == "universal":
        x = universal("encoder", p, x, lambda one, y: layer(one, y, real, table)[0])
        return [layer_norm(p, "final_norm", x)], real
    # Segments of the funnel: a block; its first layer, which pools; the rest of the block; and so on.
    segments = {"funnel": [(2, False), (1, True), (1, False), (1, True), (1, False)],
                "funnel_of_two": [(1, False), (1, True)]}[variant]  # fmt: skip
    for number, (repeat, pools) in enumerate(segments):
        for l in range(repeat):
            x, real = layer(stack(number, l), x, real, table, pools=pools)
    return [layer_norm(p, "final_norm", x)] * 2, real


def universal(side, p, x, apply):
    """2 steps, and a plain pass before or after them, with the weights of one layer."""
    one, table = under(p, "stack.segments.0", 0), p["stack.step_table"]
    assert table.shape == (len(STEPS[side]), 12)
    for application in range(APPLICATIONS):
        if application in STEPS[side]:
            x = x + np.sqrt(12) * table[STEPS[side].index(application)]
        x = apply(one, x)
    return x


def adaptive(p, x, apply):
    """(output, each position's steps and remainder), with halting decided for each position."""
    one, table = under(p, "stack.segments.0", 0), p["stack.step_table"]
    output, sums, ponder = np.zeros_like(x), np.zeros(x.shape[:2]), np.zeros(x.shape[:2])
    for number in range(4):
        x = x + np.sqrt(12) * table[number]
        p_halt = sigmoid(x @ p["stack.halting.kernel"] + p["stack.halting.bias"])[..., 0]
        x = apply(one, x)
        for place in np.ndindex(sums.shape):
            if sums[place] == 1:
                continue
            if sums[place] + p_halt[place] > 0.8:
                weight = 1 - sums[place]
                sums[place], ponder[place] = 1, number + 1 + weight
            else:
                weight = p_halt[place]
                sums[place], ponder[place] = sums[place] + weight, number + 1
            output[place] = weight * x[place] + (1 - weight) * output[place]
    return output, ponder


def log_likelihood(variant, parameters, batch):
    p = {name: np.asarray(x, np.float64) for name, x in parameters.items()}
    embed = lambda tokens: p["vocabulary.table"][tokens] * np.sqrt(12)
    memories, memory_real = encode(variant, under(p, "encoder"), embed(batch["source"]), batch["source"] != 0)
    inner = under(p, "decoder")
    before = np.concatenate([np.full((len(batch["target"]), 1), BOS), batch["target"][:, :-1]], 1)
    x, table = embed(before), inner["self_shared.table"]
    everything = np.ones(batch["target"].shape, bool)
    step = lambda one, y, memory: layer(one, y, everything, table, memory=memory, memory_real=memory_real)[0]
    if variant == "adaptive":
        x, _ = adaptive(inner, x, lambda one, y: step(one, y, memories[0]))
    elif variant == "universal":
        x = universal("decoder", inner, x, lambda one, y: step(one, y, memories[0]))
    else:
        for l, memory in enumerate(memories):
            x = step(under(inner, "stack.segments.0", l), x, memory)
    logits = layer_norm(inner, "final_norm", x) @ p["vocabulary.table"].T
    log_p = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    log_p -= logits.max(-1, keepdims=True)
    return np.take_along_axis(log_p, batch["target"][..., None], -1)[..., 0]


def run(small, batch, variant, key=None, **settings):
    """The log-likelihoods of our model, with dropout if a key is given."""
    sides = {side: {**VARIANTS[variant][side], **settings} for side in SUBLAYERS}
    structure, parameters = small(**{**VARIANTS[variant], **sides, "dropout_rate": 0.3})
    both = {name: jnp.asarray(x, jnp.int32) for name, x in batch.items()}
    of_model = lambda p: structure.merge(p).log_likelihood(both, key=key)[0]["log_likelihood"]
    return np.asarray(jax.jit(of_model)(parameters))


@pytest.mark.parametrize(
    "variant", [pytest.param(v, marks=[pytest.mark.slow] * (v != "transparent")) for v in VARIANTS]
)
def test_the_model_is_its_equations(variant, small, batch):
    want, real = log_likelihood(variant, small(**VARIANTS[variant])[1], batch), batch["target"] != 0
    np.testing.assert_allclose(run(small, batch, variant)[real], want[real], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_unrolled_and_rematerialised_stacks_equal_the_scan(variant, small, batch):
    """With dropout, which changes the likelihoods."""
    want, real = log_likelihood(variant, small(**VARIANTS[variant])[1], batch), batch["target"] != 0
    key = jax.random.key(3)
    noisy, again = (run(small, batch, variant, key, unroll=unroll, remat=unroll) for unroll in (False, True))
    np.testing.assert_allclose(again, noisy, atol=1e-4)
    assert np.abs(noisy - want)[real].max() > 0.1


@pytest.mark.slow
def test_pondering_costs(small, batch):
    """The mean over a row of steps and remainder, times the weight. Positions differ in their number of steps."""
    structure, parameters = small(**VARIANTS["adaptive"])
    both = {name: jnp.asarray(x, jnp.int32) for name, x in batch.items()}
    aux = jax.jit(lambda p: structure.merge(p).log_likelihood(both)[1])(parameters)
    p = under({name: np.asarray(x, np.float64) for name, x in parameters.items()}, "encoder")
    x, real = np.asarray(parameters["vocabulary.table"])[batch["source"]] * np.sqrt(12), batch["source"] != 0
    _, ponder = adaptive(p, x, lambda one, y: layer(one, y, real, p["shared.table"])[0])
    np.testing.assert_allclose(aux["encoder"]["segment_0"]["loss"]["ponder"], 0.5 * ponder.mean(1), rtol=1e-4)
    assert len(set(np.floor(ponder[real]))) > 1
    everywhere = jnp.ones((4, 1), bool)
    whole = 0.5 * ponder.mean(1).sum() + float(aux["decoder"]["segment_0"]["loss"]["ponder"].sum())
    assert float(auxiliary_loss(aux, everywhere)) == pytest.approx(whole, rel=1e-4)


def test_positions_halt_at_the_same_step_in_bfloat16(small, batch):
    """With p = sigmoid(-4), it takes 56 steps. A sum in bfloat16 would reach the threshold at another step."""
    ponders, both = [], {name: jnp.asarray(x, jnp.int32) for name, x in batch.items()}
    stack = {"stack": {"kind": "adaptive_universal"}}
    for dtype in ("float32", "bfloat16"):
        structure, parameters = small(**pre_norm(stack, stack, num_layers=60), dtype=dtype)
        constant = {"stack.halting.kernel": 0.0, "stack.halting.bias": -4.0}
        halting = {f"{side}.{name}": value for side in SUBLAYERS for name, value in constant.items()}
        parameters = {name: jnp.full_like(x, halting[name]) if name in halting else x for name, x in parameters.items()}
        of_model = lambda p, structure=structure: structure.merge(p).log_likelihood(both)[1]
        ponders.append(jax.jit(of_model)(parameters)["encoder"]["segment_0"]["loss"]["ponder"])
    np.testing.assert_allclose(*ponders, rtol=1e-6)
    assert np.allclose(np.floor(ponders[0] / 0.01), 56)


def test_the_gate_is_its_equations():
    rng = np.random.default_rng(0)
    structure, parameters, _ = split(GRUGate(width=7, rngs=nnx.Rngs(0)))
    arrays = {name: rng.standard_normal(x.shape) for name, x in parameters.items()}
    assert sum(x.size for x in arrays.values()) == 2 * 7 + 3 * (2 * 7**2 + 7)
    x, y = rng.standard_normal((2, 3, 5, 7))
    module = structure.merge({name: jnp.asarray(a, jnp.float32) for name, a in arrays.items()})
    want = gated({f"gate.{name}": a for name, a in arrays.items()}, "gate", x, y)
    np.testing.assert_allclose(module(*(jnp.asarray(a, jnp.float32) for a in (x, y))), want, atol=1e-5)


@pytest.mark.parametrize("length", [6, 7, 1])
def test_pairs_of_any_length_are_averaged(length):
    x, real = (
        np.random.default_rng(1).standard_normal((3, length, 5)),
        np.arange(length) < np.array([[length], [3], [0]]),
    )
    means, there = pooled(x, real)
    y, _ = PairMean(rngs=nnx.Rngs(0))(jnp.asarray(x, jnp.float32), real=jnp.asarray(real))
    np.testing.assert_allclose(y, means, atol=1e-6)
    np.testing.assert_array_equal(halved(jnp.asarray(real)), there)
    for dtype in (jnp.float32, jnp.bfloat16):
        assert PairMean(rngs=nnx.Rngs(0))(jnp.asarray(x, dtype), real=jnp.asarray(real))[0].dtype == dtype


def test_a_funnel_refuses_packed_rows(small, small_config):
    structure, parameters = small(**VARIANTS["funnel"])
    tokens = jnp.ones((1, 8), jnp.int32)
    with pytest.raises(ValueError, match="without packed rows"):
        structure.merge(parameters).encode({"tokens": tokens, "segments": tokens, "positions": tokens})
    packed = small_config(**VARIANTS["funnel"])
    with pytest.raises(ConfigError, match=r"batching.kind: packed rows .* use buckets"):
        packed.override([("data.batching", {"kind": "packed"})])


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            pre_norm({"kind": "funnel", "num_layers": 4}),
            "encoder.blocks: 4 layers do not divide into 3 equal blocks",
        ),
        (pre_norm(**UNIVERSAL, num_layers=1), "model.encoder.stack.before: of 1 applications .* 1 before and 0 after"),
        ({"kind": "transformer_encoder", "encoder": {"kind": "funnel", "num_layers": 3}}, "model.encoder.kind: funnel"),
    ],
    ids=["funnel", "universal", "encoder_only"],
)
def test_invalid_combinations_are_refused(sections, message, small_config):
    with pytest.raises(ConfigError, match=message):
        small_config(**sections)


@pytest.mark.parametrize("kind", ["cross_layer", "value_residual"])
def test_a_funnel_refuses_layers_that_hand_over_values(kind, small):
    with pytest.raises(ConfigError, match=r"^model.encoder.self_attention.kind: \w+ needs layers of one length"):
        small(encoder={"kind": "funnel", "num_layers": 3, "self_attention": {"kind": kind}})


def test_as_many_memories_as_decoder_layers(small, batch):
    structure, parameters = small(**{**VARIANTS["transparent"], "num_layers": 3})
    both = {name: jnp.asarray(x, jnp.int32) for name, x in batch.items()}
    with pytest.raises(ConfigError, match="2 memories, but the decoder has 3 layers"):
        jax.eval_shape(lambda p: structure.merge(p).log_likelihood(both), parameters)


#: Rows of Narang et al.'s Table 1 (reference: graphs of their released code): sections -> parameters. The Funnel here
#: has the baseline's layer norms and therefore its count. The published row has RMS norms in the encoder.
PUBLISHED = {
    "universal": (pre_norm(*[{"stack": "universal", "residual": "gru_gate"}] * 2, num_layers=28,
                           vocabulary={"kind": "t5_untied_output"}), 83_633_664),
    "transparent": (pre_norm({"kind": "transparent"}, num_layers=12, vocabulary={"kind": "t5"}), 223_043_484),
    "funnel": (pre_norm({"kind": "funnel", "norm": "rms_norm"}, num_layers=12, vocabulary={"kind": "t5"}), 223_024_128),
}  # fmt: skip


@pytest.mark.parametrize("row", PUBLISHED)
def test_published_rows_have_their_parameters(row, small_config):
    from attention_research.config import build
    from attention_research.layers.structure import abstract

    sections, count = PUBLISHED[row]
    attention = {"kind": "t5", "use_bias": False}
    sizes = {"width": 768, "num_heads": 12, "feed_forward": {"hidden_width": 3072}, "self_attention": attention}
    config = small_config(**{**sections, **sizes, "vocabulary_size": 32128})
    make = build(config.resolved["model"], "model")
    assert sum(x.size for x in abstract(lambda rngs: make(rngs=rngs))[1].values()) == count

"""The printed tree describes the computation: float64 NumPy code that follows it gives the model's log-likelihoods."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.layers.structure import abstract
from attention_research.models.architecture import architecture, lines, masked_layers
from attention_research.tokens import BOS

POST = ("dropout", "residual", "norm")
VARIANTS = {
    "vaswani": {},
    "pre_norm": {
        side: {"steps": tuple(("norm", step, "dropout", "residual") for step in steps), "final_norm": True}
        for side, steps in {
            "encoder": ("self_attention", "feed_forward"),
            "decoder": ("self_attention", "cross_attention", "feed_forward"),
        }.items()
    },
    "no_cross_attention": {"decoder": {"steps": (("self_attention", *POST), ("feed_forward", *POST))}},
    "another_order": {
        "encoder": {"num_layers": 3},
        "decoder": {
            "steps": (("feed_forward", *POST), ("cross_attention", "norm", "residual"), ("self_attention", *POST))
        },
    },
    "unmasked": {"decoder": {"self_attention": {"kind": "unmasked"}}},
    "one_sided": {"encoder": {"self_attention": {"kind": "one_sided"}}},
    "no_positions": {"positions": {"kind": "none"}},
}


def reader(lines, parameters, batch):
    """log p [B T V], computed from the lines of the tree and the parameters by name."""
    p = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
    table = p["vocabulary.table"]
    heads, width = 3, table.shape[1]
    target = np.asarray(batch["target"])
    tokens = {"source": np.asarray(batch["source"]), "target": np.pad(target, ((0, 0), (1, 0)), constant_values=BOS)}
    tokens["target"] = tokens["target"][:, :-1]

    def linear(x, name, layer):
        return x @ p[f"{name}.kernel"][layer] + p[f"{name}.bias"][layer]

    def attention(x, memory, name, layer, masked):
        split = lambda y: y.reshape(*y.shape[:2], heads, -1)
        query, key, value = (
            split(linear(y, f"{name}.{part}", layer)) for y, part in ((x, "query"), (memory, "key"), (memory, "value"))
        )
        scores = np.einsum("btnh,bsnh->bnts", query, key) / math.sqrt(query.shape[-1])
        if masked:
            scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        context = np.einsum("bnts,bsnh->btnh", weights / weights.sum(-1, keepdims=True), value)
        return linear(context.reshape(*x.shape), f"{name}.output", layer)

    def norm(x, scale, bias):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * scale + bias

    def positions(x):
        place, pair = np.arange(x.shape[1])[:, None], np.arange(width // 2)[None]
        angle = place / 10000 ** (2 * pair / width)
        return x + np.stack([np.sin(angle), np.cos(angle)], -1).reshape(x.shape[1], width)

    def run(steps, x, root, layer, seen):
        stream = x
        for step in steps.split(" > "):
            word, _, said = step.partition(" (")
            seen[word.split()[-1]] = seen.get(word.split()[-1], 0) + 1
            count = seen[word.split()[-1]]
            name = f"{root}.{word.split()[-1]}" + (f"_{count}" if count > 1 else "")
            if word == "add":
                x = stream + x
            elif word == "norm":
                x = norm(x, *(p[f"{name}.{part}"][layer] for part in ("scale", "bias")))
            elif word.endswith("_attention"):
                memory = done["encoder"] if "reads the encoder's output" in said else x
                x = attention(x, memory, name, layer, word.startswith("masked "))
            elif word == "feed_forward":
                x = linear(np.maximum(linear(x, f"{name}.hidden", layer), 0), f"{name}.output", layer)
            else:
                assert word == "dropout", step
        return x

    done, part, repeat, branches = {}, "", 0, []
    for line in [*lines, "end: "]:
        if line.startswith("    "):
            branches.append(line.strip())
            continue
        for layer in range(repeat):  # the blocks end at the next line of the tree
            seen = {}
            for branch in branches:
                done[part] = run(branch, done[part], f"{part}.stack.segments.0", layer, seen)
        repeat, branches = 0, []
        if line.endswith(" x"):
            repeat = int(line.split()[0])
        elif line.startswith("  "):
            assert line.strip() == "norm (LayerNorm)"
            done[part] = norm(done[part], p[f"{part}.final_norm.scale"], p[f"{part}.final_norm.bias"])
        elif line.startswith("output: "):
            assert line == "output: linear (TiedEmbeddings) > softmax"
            logits = done["decoder"] @ table.T
            return logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        else:
            part, _, steps = line.partition(": ")
            first, *rest = steps.split(" > ")
            done[part] = table[tokens[first.split()[0]]] * math.sqrt(width)
            assert first.startswith(("source embedding (", "target embedding, shifted right ("))
            for step in rest:
                done[part] = positions(done[part]) if step == "positions (SinusoidalPositions)" else done[part]
    raise AssertionError("the tree has no output")


#: Other orders of steps. The other variants are slow tests.
QUICK = ("pre_norm", "another_order")


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in VARIANTS]
)
def test_the_tree_describes_the_computation(small, variant):
    structure, parameters = small(**VARIANTS[variant])
    rng = np.random.default_rng(3)
    batch = {side: jnp.asarray(rng.integers(4, 29, (2, t)), jnp.int32) for side, t in (("source", 7), ("target", 5))}
    tree = lines(architecture(jax.eval_shape(structure.merge, parameters)))
    log_p = reader(tree, parameters, batch)
    expected = np.take_along_axis(log_p, np.asarray(batch["target"])[..., None], -1)[..., 0]
    ours, _ = jax.jit(lambda p: structure.merge(p).log_likelihood(batch))(parameters)
    np.testing.assert_allclose(ours["log_likelihood"], expected, rtol=2e-4, atol=2e-4)


def test_the_trees_differ(small):
    trees = [lines(architecture(structure.merge(p))) for structure, p in (small(**v) for v in VARIANTS.values())]
    assert all(a != b for i, a in enumerate(trees) for b in trees[:i])


FEED_FORWARD = "    feed_forward (DenseFeedForward) > dropout > add > norm (LayerNorm)"
#: Settings of the model, the first line of the tree without "encoder: ", and the last line of the encoder.
ENCODERS = {
    "captioner": (
        {"kind": "transformer_captioner", "features": {"kind": "cnn", "width": 5}, "positions": "none"},
        "image features (ConvolutionalFeatures) > project (Linear) > dropout",
        FEED_FORWARD,
    ),
    "perceiver": (
        {"encoder": {"kind": "perceiver", "num_latents": 4, "final_norm": True}, "positions": "none"},
        "source embedding (TiedEmbeddings) > dropout > norm (LayerNorm) > latents",
        "  norm (LayerNorm)",
    ),
    "transparent": (
        {"encoder": {"kind": "transparent"}, "positions": "none"},
        "source embedding (TiedEmbeddings) > dropout",
        "  a weighted sum for each layer of the decoder (reads the outputs of all layers)",
    ),
    "class token": (
        {"kind": "vision_transformer", "num_classes": 3, "patch_side": 2},
        "source embedding (PatchEmbedding) > class token > positions (LearnedPositions) > dropout",
        FEED_FORWARD,
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_the_tree_names_everything_around_the_layers_of_an_encoder(name):
    """The image of a captioner, the normalized input and latents of a Perceiver, the sums that are the memories of a
    decoder, and the token before the patches."""
    section, first, last = ENCODERS[name]
    section = {"kind": "transformer", "width": 12, "num_heads": 3, "num_layers": 2, **section}
    sizes = {"vocabulary_size": 29, "max_length": 5, "side": 4, "channels": 3}
    make = build_model({**section, "feed_forward": {"hidden_width": 17}}, **sizes)
    structure, *arrays = abstract(lambda rngs: make(rngs=rngs))
    tree = lines(architecture(jax.eval_shape(structure.merge, *arrays)))
    parts = [number for number, line in enumerate(tree) if line[0] != " "]
    assert tree[0] == f"encoder: {first}" and tree[parts[1] - 1] == last


def test_layers_that_hide_later_positions_are_found_by_their_class(small):
    """In a decoder all but unmasked ones, in an encoder only one-sided ones."""
    merged = lambda **model: small(**model)[0].merge(small(**model)[1])
    mixed = {"kind": "interleaved", "interval": 2, "first": {"kind": "unmasked"}, "last": {"kind": "standard"}}
    model = merged(
        encoder={"self_attention": {"kind": "one_sided"}}, decoder={"num_layers": 3, "self_attention": mixed}
    )
    assert masked_layers(model, "encoder", "self_attention") == (True, True)
    assert masked_layers(model, "decoder", "self_attention") == (False, True, False)
    assert masked_layers(model, "decoder", "cross_attention") == (False, False, False)
    shared = merged(kind="shared_transformer")
    assert masked_layers(shared, "decoder", "self_attention") == (True, True)
    assert masked_layers(shared, "encoder", "self_attention") == (False, False)
    assert masked_layers(merged(kind="transformer_encoder"), "decoder", "self_attention") == ()


def test_other_models_have_their_own_parts(small):
    tree = lambda **model: lines(architecture(small(**model)[0].merge(small(**model)[1])))
    assert tree(kind="transformer_decoder") == [
        "decoder: target embedding, shifted right (TiedEmbeddings) > positions (SinusoidalPositions) > dropout",
        "  2 x",
        "    norm (LayerNorm) > masked self_attention (StandardAttention) > dropout > add",
        "    norm (LayerNorm) > feed_forward (DenseFeedForward) > dropout > add",
        "  norm (LayerNorm)",
        "output: linear (TiedEmbeddings) > softmax",
    ]
    assert [line.split(":")[0] for line in tree(kind="transformer_encoder") if line[0] != " "] == ["encoder", "output"]

"""The whole Evolved Transformer: PyTorch in float64 from Figure 3 of So et al. 2019, and its published counts."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.layers.initialization.mesh_tensorflow import MeshTensorFlow
from attention_research.layers.structure import abstract, initializer
from attention_research.models.architecture import architecture, lines
from attention_research.tokens import BOS

D, HEADS, WIDE, WIDE_HEAD, BUCKETS, FARTHEST = 12, 3, 5, 4, 8, 9
EVOLVED = {
    "positions": {"kind": "none"},
    "self_attention": {"kind": "t5", "num_buckets": BUCKETS, "max_distance": FARTHEST, "use_bias": False},
    "vocabulary": {"kind": "t5"},
    "encoder": {"kind": "evolved", "convolution": {"kernel_width": 5}},
    "decoder": {
        "kind": "evolved",
        "wide_self_attention": {"num_heads": WIDE, "head_width": WIDE_HEAD},
        "cross_attention": {"kind": "unscaled", "use_bias": False},
        "convolution": {"left_kernel_width": 5, "right_kernel_width": 3, "kernel_width": 4},
        "feed_forward": {"activation": "swish"},
    },
}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    source, target = rng.integers(4, 29, (3, 11)), rng.integers(4, 29, (3, 7))
    for row, (real_source, real_target) in enumerate([(11, 7), (8, 5), (1, 1)]):
        source[row, real_source:], target[row, real_target:] = 0, 0
    return {"source": jnp.asarray(source, jnp.int32), "target": jnp.asarray(target, jnp.int32)}


def log_likelihood(torch, p, batch):
    """log p of each target token, with the names of our parameters."""
    t5 = pytest.importorskip("transformers").models.t5.modeling_t5
    functional = torch.nn.functional

    def norm(p, name, x):
        return functional.layer_norm(x, x.shape[-1:], p[f"{name}.scale"], p[f"{name}.bias"], 1e-6)

    def linear(p, name, x):
        return x @ p[f"{name}.kernel"] + p.get(f"{name}.bias", 0)

    def attention(p, name, heads, x, memory, real, table=None, causal=False):
        split = lambda y: y.unflatten(-1, (heads, -1)).transpose(1, 2)
        q, k, v = (split(linear(p, f"{name}.{n}", y)) for n, y in (("query", x), ("key", memory), ("value", memory)))
        scores = torch.zeros(len(x), 1, x.shape[1], memory.shape[1], dtype=x.dtype).masked_fill(
            ~real[:, None, None], -math.inf
        )
        if table is not None:
            distance = torch.arange(x.shape[1]) - torch.arange(x.shape[1])[:, None]
            bucket = t5.T5Attention._relative_position_bucket(distance, not causal, BUCKETS, FARTHEST)
            scores = scores + table[bucket].permute(2, 0, 1)
        if causal:
            scores = scores + torch.full(scores.shape[-2:], -math.inf, dtype=x.dtype).triu(1)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=scores, scale=1.0)
        return linear(p, f"{name}.output", y.transpose(1, 2).flatten(2))

    def convolution(x, kernel, causal, groups=1):
        """Convolution with kernel [O I W]."""
        taps = kernel.shape[2]
        left = taps - 1 if causal else taps // 2
        return functional.conv1d(functional.pad(x.mT, (left, taps - 1 - left)), kernel, groups=groups).mT

    def separable(p, name, x, causal):
        kernel = p[f"{name}.kernel"]
        return linear(p, f"{name}.pointwise", convolution(x, kernel[:, None], causal, len(kernel)) + p[f"{name}.bias"])

    def beside(x, width):
        return functional.pad(x, (0, width - x.shape[-1]))

    def feed_forward(p, x, act):
        return linear(p, "feed_forward.output", act(linear(p, "feed_forward.hidden", x)))

    def encoder_block(p, x, real, table):
        y = norm(p, "norm", x)
        x = x + linear(p, "gated_linear_unit.linear", y) * torch.sigmoid(linear(p, "gated_linear_unit.gate", y))
        y, own = norm(p, "norm_2", x), real[..., None]
        right = functional.relu(convolution(y * own, p["convolution.right_kernel"].permute(2, 1, 0), False))
        hidden = functional.relu(y @ p["convolution.left.kernel"]) + beside(right, 4 * D)
        hidden = norm(p, "convolution.norm", hidden) * own
        x = x + beside(separable(p, "convolution.separable", hidden, False), D)
        y = norm(p, "norm_3", x)
        x = x + attention(p, "self_attention", HEADS, y, y, real, table)
        return x + feed_forward(p, norm(p, "norm_4", x), functional.relu)

    def decoder_block(p, x, memory, real, wide_table, table):
        everything = torch.ones(x.shape[:2], dtype=torch.bool)
        y = norm(p, "norm", x)
        x = (
            x
            + attention(p, "wide_self_attention", WIDE, y, y, everything, wide_table, True)
            + attention(p, "cross_attention", HEADS, y, memory, real)
        )
        y = norm(p, "norm_2", x)
        left, right = (separable(p, f"convolution.{name}", y, True) for name in ("left", "right"))
        hidden = norm(p, "convolution.norm", functional.relu(left) + beside(right, 2 * D))
        x = x + separable(p, "convolution.separable", hidden, True)
        y = norm(p, "norm_3", x)
        x = x + attention(p, "self_attention", HEADS, y, y, everything, table, True)
        x = x + attention(p, "cross_attention_2", HEADS, norm(p, "norm_4", x), memory, real)
        return x + feed_forward(p, norm(p, "norm_5", x), functional.silu)

    def of_layer(side, layer):
        prefix = f"{side}.stack.segments.0."
        return {name.removeprefix(prefix): x[layer] for name, x in p.items() if name.startswith(prefix)}

    source, target = (torch.tensor(np.asarray(batch[side]), dtype=torch.long) for side in ("source", "target"))
    table, real = p["vocabulary.table"], source != 0
    x = table[source]
    for layer in range(2):
        x = encoder_block(of_layer("encoder", layer), x, real, p["encoder.shared.table"])
    memory = norm(p, "encoder.final_norm", x)
    x = table[functional.pad(target, (1, 0), value=BOS)[:, :-1]]
    for layer in range(2):
        tables = p["decoder.wide_shared.table"], p["decoder.self_shared.table"]
        x = decoder_block(of_layer("decoder", layer), x, memory, real, *tables)
    logits = norm(p, "decoder.final_norm", x) * D**-0.5 @ table.T
    return functional.log_softmax(logits, -1).gather(-1, target[..., None])[..., 0]


@pytest.mark.slow
def test_the_model_and_every_gradient_are_the_figure_s(small, batch, torch):
    structure, parameters = small(**EVOLVED)
    tensors = {n: torch.tensor(np.asarray(x, np.float64), requires_grad=True) for n, x in parameters.items()}
    real = np.asarray(batch["target"] != 0)
    theirs = log_likelihood(torch, tensors, batch)
    theirs[torch.tensor(real)].sum().backward()

    def value(p):
        values = structure.merge(p).log_likelihood(batch)[0]
        return jnp.sum(values["log_likelihood"], where=values["mask"]), values["log_likelihood"]

    gradients, ours = jax.jit(jax.grad(value, has_aux=True))(parameters)
    np.testing.assert_allclose(np.asarray(ours)[real], theirs.detach().numpy()[real], atol=2e-4)
    for name, tensor in tensors.items():
        scale = max(1.0, float(tensor.grad.abs().max()))
        np.testing.assert_allclose(gradients[name], tensor.grad.numpy(), atol=2e-4 * scale, err_msg=name)
        assert float(tensor.grad.abs().max()) > 1e-6, name


@pytest.mark.slow
def test_unrolled_and_rematerialised_stacks_equal_the_scan(small, batch):
    def run(**settings):
        sides = {side: {**EVOLVED[side], **settings} for side in ("encoder", "decoder")}
        structure, parameters = small(**{**EVOLVED, **sides, "dropout_rate": 0.3})
        of_model = lambda p: structure.merge(p).log_likelihood(batch, key=jax.random.key(3))[0]["log_likelihood"]
        return np.asarray(jax.jit(of_model)(parameters))

    scanned = run()
    np.testing.assert_allclose(run(unroll=True, remat=True), scanned, atol=1e-4)


def test_the_tree_shows_sums_of_branches(small):
    structure, parameters = small(**EVOLVED)
    first, second = (line.strip() for line in lines(architecture(structure.merge(parameters))) if "wide" in line or
                     "Encoder" in line)  # fmt: skip
    assert first.startswith("norm (LayerNorm) > convolution (EvolvedEncoderConvolution) > dropout > add")
    assert second == (
        "norm (LayerNorm) > masked wide_self_attention (T5Attention) + cross_attention (UnscaledAttention, reads the "
        "encoder's output) > dropout > add"
    )


@pytest.mark.slow
def test_a_sum_of_steps_may_be_of_any_children(small, small_config, batch):
    """GPT-J's layer in the decoder: x + Attention(LN(x)) + FFN(LN(x)), in training and step by step.

    Two sequential steps with the same arrays give different results.
    """
    ends = (("norm", "cross_attention", "dropout", "residual"),)
    together = (("norm", "self_attention+feed_forward", "dropout", "residual"), *ends)
    structure, parameters = small(num_layers=1, decoder={"steps": together, "final_norm": True})
    block = structure.merge(parameters).decoder.stack.segments[0]
    block = jax.tree.map(lambda x: x[0], block)
    x = jax.random.normal(jax.random.key(0), (3, 7, D))
    memory = {"memory": jax.random.normal(jax.random.key(1), (3, 5, D)), "mask": None}
    inputs = {"self_attention": {"is_causal": True}, "cross_attention": memory}
    y, collected = jax.jit(lambda x: block(x, inputs))(x)
    assert collected.keys() == {"self_attention", "feed_forward", "cross_attention"}

    @jax.jit
    def by_hand(x):
        normal = block.norm(x)
        after = x + block.self_attention(normal, is_causal=True)[0] + block.feed_forward(normal)[0]
        return after + block.cross_attention(block.norm_2(after), **memory)[0]

    want = by_hand(x)
    np.testing.assert_allclose(y, want, atol=1e-5)
    caches = block.start(3, 7, x.dtype, inputs)
    assert {name: set(of) for name, of in caches.items()} == {
        "caches": {"self_attention"}, "memory": {"cross_attention"}
    }  # fmt: skip
    cache, step = caches["caches"], jax.jit(block.step)
    for t in range(7):
        one, cache, _ = step(x[:, t : t + 1], cache, caches["memory"], jnp.asarray(t), {})
        np.testing.assert_allclose(one[:, 0], want[:, t], atol=1e-5)
    with pytest.raises(ConfigError, match=r"decoder.steps: no step 'feed_forwards' .* mean 'feed_forward'"):
        small_config(decoder={"steps": (("norm", "self_attention+feed_forwards"),)})


def test_both_attentions_of_a_decoder_may_share_keys_between_layers(small, batch):
    """Layer 2 has no keys, in training and step by step."""
    structure, parameters = small(dropout_rate=0.0, self_attention={"kind": "cross_layer"}, decoder={"kind": "evolved"})
    for attention in ("self_attention", "wide_self_attention"):
        keys = [name for name in parameters if name.startswith("decoder") and f".{attention}.key.kernel" in name]
        assert keys == [f"decoder.stack.segments.0.{attention}.key.kernel"]

    def stepped(model):
        def step(carry, target):
            cache, log_p, _ = model.step(*carry)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], 1)[:, 0]

        first = model.start(model.encode({"tokens": batch["source"]}), 7), jnp.full((3,), BOS, jnp.int32)
        return jax.lax.scan(step, first, batch["target"].T)[1].T

    @jax.jit
    def both(p):
        model = structure.merge(p)
        values, _ = model.log_likelihood(batch)
        return values["log_likelihood"], stepped(model), values["mask"]

    whole, one_by_one, mask = both(parameters)
    np.testing.assert_allclose(np.where(mask, whole, 0), np.where(mask, one_by_one, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_kernels_start_by_their_fan_in(small_constructor):
    """With Mesh TensorFlow's initialisation: matrices are N(0, 1 / fan_in), truncated at two deviations.

    Filters are drawn by their layers.
    """
    section = small_constructor(**{**EVOLVED, "width": 48, "num_heads": 3, "feed_forward": {"hidden_width": 64}})
    built = jax.jit(initializer(lambda rngs: started(section, rngs)))(jax.random.key(0))[0]
    seen = 0
    for name, x in built.items():
        if name.endswith("pointwise.kernel") or "gated_linear_unit" in name and name.endswith("kernel"):
            assert float(x.std()) == pytest.approx(0.88 * x.shape[-2] ** -0.5, rel=0.1), name
        elif name.endswith("convolution.left.kernel") and name.startswith("encoder"):
            assert float(x.std()) == pytest.approx(0.88 * 48**-0.5, rel=0.1), name
        elif name.endswith("right_kernel"):
            assert float(x.std()) == pytest.approx((2 / (3 * 48 + 3 * 24)) ** 0.5, rel=0.1), name
        elif "convolution" in name and name.endswith("kernel"):
            assert float(x.std()) == pytest.approx(0.88 * x.shape[-1] ** -0.5, rel=0.1), name
        else:
            continue
        seen += 1
    assert seen == 2 + 4 + 2 * 3


def started(section, rngs):
    model = section(rngs=rngs)
    MeshTensorFlow()(model, rngs)
    return model


#: The row of Narang et al.'s Table 1, in encoder and decoder. The rest is the baseline.
PUBLISHED = {
    "width": 768, "num_heads": 12, "head_width": 64, "num_layers": 6, "max_length": 512, "vocabulary_size": 32128,
    "positions": {"kind": "none"}, "vocabulary": {"kind": "t5"}, "feed_forward": {"hidden_width": 3072},
    "self_attention": {"kind": "t5", "use_bias": False}, "encoder": {"kind": "evolved"},
    "decoder": {"kind": "evolved", "wide_self_attention": {"num_heads": 24}, "feed_forward": {"activation": "swish"},
                "cross_attention": {"kind": "unscaled", "use_bias": False}},
}  # fmt: skip


@pytest.mark.slow
def test_the_published_size_counts_as_published(small_constructor):
    """216,344,064 parameters.

    The graph of the original code has 9.869 T multiply-adds in matrix products and look-ups, and 9.894 T with
    elementwise products, which include the depthwise filters. Its dense convolution is in neither.
    """
    from attention_research.accounting.operations import count_operations

    make = small_constructor(**PUBLISHED)
    structure, parameters, statistics = abstract(lambda rngs: make(rngs=rngs))
    assert sum(x.size for x in parameters.values()) == 216_344_064
    tables = {name: x.shape for name, x in parameters.items() if name.endswith("shared.table")}
    assert tables == {
        "encoder.shared.table": (32, 12), "decoder.self_shared.table": (32, 12), "decoder.wide_shared.table": (32, 24)
    }  # fmt: skip
    tokens = {
        side: jax.ShapeDtypeStruct((128, length), jnp.int32) for side, length in (("source", 512), ("target", 114))
    }
    forward = lambda p, batch: structure.merge(p, statistics).log_likelihood(batch)[0]["log_likelihood"]
    counted = count_operations(forward, parameters, tokens)
    assert counted.products == pytest.approx(9_868_806_368_256, rel=1e-4)
    assert counted.forward == pytest.approx(9_894_399_285_600, rel=1e-3)

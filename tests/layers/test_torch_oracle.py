"""Oracle: PyTorch's Transformer encoder and decoder layers with copied weights, outputs and gradients within 1e-4."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.block import Block
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.layers.structure import split
from tests.tiers import fast_are

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")

B, T, S, D, N, F = 3, 11, 7, 20, 5, 29
POST = {"encoder": ("self_attention", "feed_forward"), "decoder": ("self_attention", "cross_attention", "feed_forward")}


def our_block(side: str, order: str) -> Block:
    steps = tuple(
        ("norm", s, "dropout", "residual") if order == "pre" else (s, "dropout", "residual", "norm") for s in POST[side]
    )
    attention = functools.partial(StandardAttention, width=D, num_heads=N, head_width=None)
    children = {
        "self_attention": attention,
        "cross_attention": attention,
        "feed_forward": functools.partial(DenseFeedForward, width=D, hidden_width=F),
        "norm": functools.partial(LayerNorm, width=D, epsilon=1e-5),
    }
    return Block(steps=steps, children=children, dropout_rate=0.3, rngs=nnx.Rngs(0))


def their_layer(side: str, order: str):
    torch.manual_seed(0)
    kind = torch.nn.TransformerEncoderLayer if side == "encoder" else torch.nn.TransformerDecoderLayer
    layer = kind(D, N, F, dropout=0.0, batch_first=True, norm_first=order == "pre").double()
    for parameter in layer.parameters():  # nonzero biases and gains, so that a missing one is noticed
        torch.nn.init.normal_(parameter, std=0.3)
    return layer


def converted(layer, side: str, of) -> dict[str, np.ndarray]:
    """Our name -> `of` their parameter (its values, or its gradient), in our layout."""
    out = {}

    def attention(name, module):
        weights, biases = of(module.in_proj_weight).chunk(3), of(module.in_proj_bias).chunk(3)
        for part, w, b in zip(("query", "key", "value"), weights, biases, strict=True):
            out[f"{name}.{part}.kernel"], out[f"{name}.{part}.bias"] = w.T, b
        out[f"{name}.output.kernel"], out[f"{name}.output.bias"] = (
            of(module.out_proj.weight).T,
            of(module.out_proj.bias),
        )

    attention("self_attention", layer.self_attn)
    norms = [layer.norm1, layer.norm2]
    if side == "decoder":
        attention("cross_attention", layer.multihead_attn)
        norms.append(layer.norm3)
    for name, module in (("feed_forward.hidden", layer.linear1), ("feed_forward.output", layer.linear2)):
        out[f"{name}.kernel"], out[f"{name}.bias"] = of(module.weight).T, of(module.bias)
    for name, module in zip(("norm", "norm_2", "norm_3"), norms, strict=False):
        out[f"{name}.scale"], out[f"{name}.bias"] = of(module.weight), of(module.bias)
    return {name: tensor.detach().numpy() for name, tensor in out.items()}


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("side", fast_are(["decoder"], ["encoder", "decoder"]))
def test_block_equals_pytorch(side, order):
    rng = np.random.default_rng(0)
    x, memory, direction = (rng.standard_normal(s) for s in ((B, T, D), (B, S, D), (B, T, D)))
    x_real, memory_real = np.ones((B, T), bool), np.ones((B, S), bool)
    x_real[1, 8:], memory_real[2, 4:] = False, False

    layer = their_layer(side, order)
    values = converted(layer, side, lambda parameter: parameter)
    tx, tm = torch.tensor(x, requires_grad=True), torch.tensor(memory, requires_grad=True)
    if side == "encoder":
        theirs = layer(tx, src_key_padding_mask=torch.tensor(~x_real))
    else:
        causal = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        theirs = layer(tx, tm, tgt_mask=causal, memory_key_padding_mask=torch.tensor(~memory_real))
    (theirs * torch.tensor(direction * x_real[..., None])).sum().backward()

    structure, parameters, _ = split(our_block(side, order))
    assert parameters.keys() == values.keys()
    weights = {name: jnp.asarray(x, jnp.float32) for name, x in values.items()}
    inputs = {"self_attention": {"mask": jnp.asarray(x_real)[:, None, None, :]}}
    if side == "decoder":
        inputs["self_attention"] = {"is_causal": True}

    def value(weights, x, memory):
        if side == "decoder":
            cross = {"memory": memory, "mask": jnp.asarray(memory_real)[:, None, None, :]}
        else:
            cross = {}
        y, _ = structure.merge(weights)(x, {**inputs, "cross_attention": cross})
        return jnp.sum(y * jnp.asarray(direction * x_real[..., None], jnp.float32)), y

    arrays = (weights, jnp.asarray(x, jnp.float32), jnp.asarray(memory, jnp.float32))
    gradients, ours = jax.jit(jax.grad(value, argnums=(0, 1, 2), has_aux=True))(*arrays)
    assert np.abs(np.asarray(ours) - theirs.detach().numpy())[x_real].max() < 1e-4
    np.testing.assert_allclose(gradients[1], tx.grad.numpy(), atol=1e-4)
    if side == "decoder":
        np.testing.assert_allclose(gradients[2], tm.grad.numpy(), atol=1e-4)
    for name, want in converted(layer, side, lambda parameter: parameter.grad).items():
        scale = max(1.0, float(np.abs(want).max()))
        assert np.abs(np.asarray(gradients[0][name]) - want).max() < 1e-4 * scale, name

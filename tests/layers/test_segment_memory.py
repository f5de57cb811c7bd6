"""Transformer-XL with a memory against float64 NumPy and against a loop over segments: outputs and gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import masks as kernel_masks
from attention_research.kernels import sinusoidal_positions, transformer_xl_attention
from attention_research.kernels.positions import extend_with_memory, next_memory
from attention_research.layers.attention.transformer_xl import TransformerXLAttention
from attention_research.layers.attention.transformer_xl_memory import SegmentedTransformerXL
from attention_research.layers.block import Block
from attention_research.layers.stack import Stack
from attention_research.layers.structure import abstract

B, T, D, N, H, L, M = 2, 11, 6, 2, 3, 4, 3
LAYERS = 2
PREFIX = "segments.0.self_attention."


def made():
    """(structure, float64 parameters, x) of a stack of two layers with residuals."""
    attention = partial(
        SegmentedTransformerXL, width=D, num_heads=N, head_width=H, segment_length=L, memory_length=M
    )  # fmt: skip
    block = partial(
        Block, steps=(("self_attention", "residual"),), children={"self_attention": attention}, dropout_rate=0.0
    )
    structure, shapes, _ = abstract(lambda rngs: Stack(segments=[(block, LAYERS)], rngs=rngs))
    random = np.random.default_rng(0)
    parameters = {name: random.standard_normal(p.shape) * 0.5 for name, p in sorted(shapes.items())}
    return structure, parameters, random.standard_normal((B, T, D))


def of_layer(parameters, l):
    return {name.removeprefix(PREFIX): p[l] for name, p in parameters.items()}


def attention64(w, memory, x):
    """The equation for one segment [T D], pair by pair, with the hidden states [M D] of the segment before."""
    both = np.concatenate([memory, x])
    split = lambda x, name: (x @ w[f"{name}.kernel"] + w[f"{name}.bias"]).reshape(len(x), N, H)
    q, k, v = split(x, "query"), split(both, "key"), split(both, "value")
    context = np.zeros((len(x), N, H))
    for t, n in np.ndindex(len(x), N):
        at, logits = len(memory) + t, []
        for j in range(at + 1):
            angle = (at - j) / 10000.0 ** (np.arange(0, D, 2) / D)
            r = np.stack([np.sin(angle), np.cos(angle)], -1).ravel() @ w["relative.kernel"]
            u, bias = w["content_bias"][n], w["position_bias"][n]
            logits.append(((q[t, n] + u) @ k[j, n] + (q[t, n] + bias) @ r.reshape(N, H)[n]) / np.sqrt(H))
        weights = np.exp(np.array(logits) - max(logits))
        context[t, n] = weights @ v[: at + 1, n] / weights.sum()
    return context.reshape(len(x), -1) @ w["output.kernel"] + w["output.bias"]


def by_segments64(parameters, x):
    """The outputs of the segments of one row [T D], one after the other. Each layer keeps its last M inputs."""
    memories, outputs = [np.zeros((0, D))] * LAYERS, []
    for start in range(0, T, L):
        h, after = x[start : start + L], []
        for l, memory in enumerate(memories):
            after.append(np.concatenate([memory, h])[-M:])
            h = h + attention64(of_layer(parameters, l), memory, h)
        memories = after
        outputs.append(h)
    return np.concatenate(outputs)


def narrow(parameters):
    return {name: jnp.float32(p) for name, p in parameters.items()}


@pytest.mark.slow
def test_a_row_is_its_segments_one_after_the_other_and_step_by_step():
    structure, parameters, x = made()

    @jax.jit
    def everything(p, x):
        stack = structure.merge(p)
        whole, aux = stack(x, {"self_attention": {"is_causal": True}})

        def step(carry, now):
            caches, index = carry
            y, caches, _ = stack.step(now[:, None], caches, index, {})
            return (caches, index + 1), y[:, 0]

        start = stack.start(B, T, jnp.float32, {})
        _, steps = jax.lax.scan(step, (start, jnp.int32(0)), x.swapaxes(0, 1))
        return whole, steps.swapaxes(0, 1), aux["segment_0"]["self_attention"]["attention_weights"]

    whole, steps, weights = everything(narrow(parameters), jnp.float32(x))
    for row in range(B):
        want = by_segments64(parameters, x[row])
        np.testing.assert_allclose(whole[row], want, atol=2e-5)
        np.testing.assert_allclose(steps[row], want, atol=2e-5)
    i, j = np.arange(T)[:, None], np.arange(T)
    seen = (j <= i) & (j >= i // L * L - M)
    assert ((np.asarray(weights) > 0) == seen).all()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


@pytest.mark.slow
def test_masks_of_padding_and_of_packed_rows_hide_keys():
    """The outputs are those of `transformer_xl` under a mask that shows the segment and its memory alone."""
    sizes = {"width": D, "num_heads": N, "head_width": H}
    segmented, shapes, _ = abstract(
        lambda rngs: SegmentedTransformerXL(**sizes, segment_length=L, memory_length=M, rngs=rngs)
    )
    plain, _, _ = abstract(lambda rngs: TransformerXLAttention(**sizes, rngs=rngs))
    random = np.random.default_rng(0)
    p = {name: jnp.float32(random.standard_normal(x.shape)) for name, x in shapes.items()}
    x = jnp.float32(random.standard_normal((B, T, D)))
    texts = jnp.array([[1] * 6 + [2] * 4 + [0], [1] * 3 + [2] * 8])
    i, j = jnp.arange(T)[:, None], jnp.arange(T)
    seen = (j <= i) & (j >= i // L * L - M)
    masks = {"padding": (texts != 0)[:, None, None], "packed": kernel_masks.segment_mask(texts, texts)}

    @jax.jit
    def both(p, x):
        run = lambda structure, mask: structure.merge(p)(x, mask=mask, is_causal=True)
        return {name: (run(segmented, mask), run(plain, mask & seen)) for name, mask in masks.items()}

    for (y, aux), (want, expected) in both(p, x).values():
        np.testing.assert_allclose(y, want, atol=2e-5)
        np.testing.assert_allclose(aux["attention_weights"], expected["attention_weights"], atol=1e-6)


def by_segments(p, x):
    """`by_segments64` in JAX: the memory of each layer has no gradient."""
    memories, outputs = [jnp.zeros((B, 0, D))] * LAYERS, []
    for start in range(0, T, L):
        h = x[:, start : start + L]
        for l, memory in enumerate(memories):
            w, both = of_layer(p, l), extend_with_memory(memory, h)
            split = lambda x, name, w=w: (x @ w[f"{name}.kernel"] + w[f"{name}.bias"]).reshape(B, -1, N, H)
            relative = (sinusoidal_positions(both.shape[1], D) @ w["relative.kernel"]).reshape(-1, N, H)
            biases = w["content_bias"], w["position_bias"]
            context = transformer_xl_attention(
                split(h, "query"), split(both, "key"), split(both, "value"), relative, *biases
            )
            memories[l] = next_memory(memory, h, length=M)
            h = h + context.reshape(*h.shape[:2], -1) @ w["output.kernel"] + w["output.bias"]
        outputs.append(h)
    return jnp.concatenate(outputs, axis=1)


@pytest.mark.slow
def test_the_memory_has_no_gradient():
    """Gradients are those of a loop over segments. An earlier segment changes the outputs and has gradient 0."""
    structure, parameters, x = made()
    factors = jnp.float32(np.random.default_rng(1).standard_normal((B, T, D)))
    run = lambda p, x: structure.merge(p)(x, {"self_attention": {"is_causal": True}})[0]

    @jax.jit
    def everything(p, x):
        grads = [jax.grad(lambda p, x, f=f: jnp.sum(f(p, x) * factors), (0, 1))(p, x) for f in (run, by_segments)]
        last = lambda x: run(p, x)[:, 2 * L :]
        return *grads, jax.grad(lambda x: last(x).sum())(x), last(x) - last(x.at[:, L - 1].add(1.0))

    found, expected, of_last, change = everything(narrow(parameters), jnp.float32(x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=3e-4, rtol=3e-4), found, expected)
    assert not np.any(of_last[:, : 2 * L]) and np.abs(of_last[:, 2 * L :]).min() > 0
    assert np.abs(change).max() > 1e-3  # through the memories of both layers

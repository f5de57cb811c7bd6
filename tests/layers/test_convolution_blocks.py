"""Lightweight and dynamic convolution blocks against PyTorch in float64, position by position; counts as published."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.constraints import Section, filters_divide_width
from attention_research.kernels import dynamic_convolution, lightweight_convolution
from attention_research.kernels.masks import padding_mask, segment_mask
from attention_research.layers.attention.dynamic_convolution import DynamicConvolution
from attention_research.layers.attention.lightweight_convolution import LightweightConvolution
from attention_research.layers.structure import abstract, split

KINDS = {"lightweight": LightweightConvolution, "dynamic": DynamicConvolution}
B, T, D = 2, 11, 6
SEGMENTS = jnp.asarray([[1] * 4 + [2] * 3 + [0] * 4, [1] * 2 + [2] * 9], jnp.int32)
MASKS = {
    "none": None,
    "padding": padding_mask(jnp.arange(T) < jnp.asarray([[7], [11]])),
    "packed": segment_mask(SEGMENTS, SEGMENTS),
}
#: (filters, taps, causal, mask)
FORMS = {
    "as_run": (None, 5, False, "padding"),
    "decoder": (None, 5, True, "none"),
    "packed": (3, 4, False, "packed"),
    "packed_decoder": (2, 3, True, "packed"),
}


def block(kind, filters, taps):
    """(structure, parameters) with nonzero parameters, so that a missing one is noticed."""
    structure, shapes, _ = abstract(
        lambda rngs: KINDS[kind](width=D, num_filters=filters, kernel_width=taps, rngs=rngs)
    )
    rng = np.random.default_rng(0)
    return structure, {name: jnp.asarray(rng.normal(size=x.shape) * 0.7, x.dtype) for name, x in shapes.items()}


def oracle(kind, p, x, filters, taps, is_causal, visible):
    """The block in PyTorch, with each position's window summed tap by tap."""
    import torch

    linear = lambda y, name: y @ p[f"{name}.kernel"] + p[f"{name}.bias"]
    g = torch.nn.functional.glu(torch.cat([linear(x, "linear"), linear(x, "gate")], -1), -1)
    N, left = D if filters is None else filters, taps - 1 if is_causal else taps // 2
    rows = []
    for b in range(B):
        for i in range(T):
            if kind == "dynamic":
                logits = (g[b, i] @ p["filter_kernel"] + p["filter_bias"]).reshape(N, taps)
            else:
                logits = p["filter_kernel"]
            weights = torch.softmax(logits, -1).repeat_interleave(D // N, 0)
            y = p["bias"]
            for w in range(taps):
                j = i + w - left
                if 0 <= j < T and visible[b, i, j]:
                    y = y + weights[:, w] * g[b, j]
            rows.append(y)
    return linear(linear(torch.stack(rows).reshape(B, T, D), "pointwise"), "output")


#: One of the blocks in each form. The others are slow tests.
QUICK = ("lightweight-packed_decoder", "dynamic-packed", "dynamic-decoder", "lightweight-as_run")
CASES = {f"{kind}-{form}": (kind, form) for kind in KINDS for form in FORMS}


@pytest.mark.parametrize(
    ("kind", "form"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, case in CASES.items()],
)
def test_blocks_and_their_gradients_are_pytorchs(kind, form, torch):
    filters, taps, is_causal, mask = FORMS[form]
    structure, parameters = block(kind, filters, taps)
    rng = np.random.default_rng(1)
    x, direction = rng.standard_normal((2, B, T, D))
    visible = np.ones((B, T, T), bool) if MASKS[mask] is None else np.broadcast_to(MASKS[mask][:, 0], (B, T, T))

    tensors = {n: torch.tensor(np.asarray(p, np.float64), requires_grad=True) for n, p in parameters.items()}
    tx = torch.tensor(x, requires_grad=True)
    theirs = oracle(kind, tensors, tx, filters, taps, is_causal, visible)
    (theirs * torch.tensor(direction)).sum().backward()

    def value(parameters, x):
        y, _ = structure.merge(parameters)(x, mask=MASKS[mask], is_causal=is_causal)
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), y

    run = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))
    gradients, ours = run(parameters, jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=3e-5)
    np.testing.assert_allclose(gradients[1], tx.grad.numpy(), atol=1e-4)
    for name, tensor in tensors.items():
        scale = max(1.0, float(tensor.grad.abs().max()))
        np.testing.assert_allclose(gradients[0][name], tensor.grad.numpy(), atol=3e-5 * scale, err_msg=name)
        assert np.abs(gradients[0][name]).max() > 1e-4, name


@pytest.mark.parametrize("kind", KINDS)
def test_the_convolution_inside_is_the_tested_kernel(kind):
    structure, parameters = block(kind, 3, 5)
    real = MASKS["padding"][:, 0, 0]

    @jax.jit
    def both(parameters, x):
        module, kernel = structure.merge(parameters), parameters["filter_kernel"]
        g = module.gated(x)
        if kind == "lightweight":
            convolved = lightweight_convolution(g, kernel, mask=real, is_causal=True)
        else:
            weight, bias = kernel.reshape(D, 3, 5).transpose(1, 2, 0), parameters["filter_bias"].reshape(3, 5)
            convolved = dynamic_convolution(g, weight, bias, mask=real, is_causal=True)
        return module.project_out(convolved), module(x, mask=MASKS["padding"], is_causal=True)

    expected, (y, aux) = both(parameters, jax.random.normal(jax.random.key(0), (B, T, D)))
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(aux["filters"].sum(-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taps", [pytest.param(1, marks=pytest.mark.slow), 5, pytest.param(13, marks=pytest.mark.slow)])
def test_steps_equal_the_causal_form(kind, taps):
    """The cache holds W - 1 gated inputs, whatever the length of the sequence."""
    structure, parameters = block(kind, None, taps)
    module, x = structure.merge(parameters), jax.random.normal(jax.random.key(0), (B, T, D))
    expected, _ = jax.jit(lambda x: module(x, is_causal=True))(x)
    cache, step = module.start(B, 97, x.dtype), jax.jit(module.step)
    assert jax.tree.map(jnp.shape, cache) == {"inputs": (B, taps - 1, D)}
    for t in range(T):
        y, cache, _ = step(x[:, t : t + 1], cache, jnp.asarray(t))
        np.testing.assert_allclose(y[:, 0], expected[:, t], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_stays_bfloat16_and_filters_are_float32(kind):
    structure, parameters = block(kind, None, 5)
    module, x = structure.merge(parameters), jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16)
    for mask in MASKS.values():
        y, aux = jax.eval_shape(lambda x, mask=mask: module(x, mask=mask), x)
        assert y.dtype == jnp.bfloat16 and aux["filters"].dtype == jnp.float32
    step = lambda x: module.step(x[:, :1], module.start(B, T, x.dtype), jnp.asarray(0))
    y, cache, _ = jax.eval_shape(step, x)
    assert y.dtype == cache["inputs"].dtype == jnp.bfloat16


VANILLA, SELF_ATTENTION, HIDDEN = 223_043_328, 4 * 768**2, 2 * 768 + 1
#: kind -> (parameters of a layer, parameters of the model of Narang et al. 2021, feed-forward width)
COUNTS = {"lightweight": (2_370_048, 223_300_608, 3072), "dynamic": (7_678_464, 256_269_312, 512)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_are_those_of_the_release(kind):
    layer, model, hidden = COUNTS[kind]
    _, shapes, _ = abstract(lambda rngs: KINDS[kind](width=768, rngs=rngs))
    assert sum(x.size for x in shapes.values()) == layer
    assert VANILLA + 24 * (layer - SELF_ATTENTION + HIDDEN * (hidden - 3072)) - 2 * 32 * 12 == model
    _, shared, _ = abstract(lambda rngs: KINDS[kind](width=768, num_filters=16, rngs=rngs))
    assert sum(x.size for x in shared.values()) < layer


def test_filters_start_at_the_releases_scale():
    """The variance of a tap's logit is 1 / W at unit inputs, times 0.774 for the truncation at two deviations."""
    for kind, fan_in in (("lightweight", 1), ("dynamic", 96)):
        _, parameters, _ = split(KINDS[kind](width=96, rngs=nnx.Rngs(0)))
        kernel = np.asarray(parameters["filter_kernel"])
        assert kernel.var() == pytest.approx(0.774 / (9 * fan_in), rel=0.1)


def test_filters_must_divide_the_width():
    section = Section(
        "model.self_attention", "encoder_attention", "dynamic_convolution", {"width": 12, "num_filters": 5}
    )
    assert filters_divide_width(section, []) == ("num_filters", "5 filters do not divide the width 12")
    assert filters_divide_width(section._replace(settings={"width": 12, "num_filters": None}), []) is None


def test_a_mask_that_differs_between_heads_is_refused():
    structure, parameters = block("lightweight", None, 5)
    with pytest.raises(ValueError, match="mask: a convolution expects one mask for all heads"):
        jax.eval_shape(structure.merge(parameters), jnp.ones((B, T, D)), mask=jnp.ones((B, 3, T, T), bool))

"""Channel and spatial attention over images, against PyTorch and NumPy loops over channels and pixels."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import channel_attention, spatial_attention
from attention_research.kernels.vision import cbam, sca, squeeze_excitation

B, Y, X, C, R, D, A, E = 2, 5, 7, 11, 3, 13, 17, 19
#: The second image is smaller. Its result alone must equal its result in the corner of a larger image.
SIZES = ((5, 7), (3, 4))
MASK = np.stack([(np.arange(Y) < y)[:, None] & (np.arange(X) < x) for y, x in SIZES])


def narrow(*arrays):
    return [jnp.asarray(x, jnp.float32) for x in arrays]


def make(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for shape in shapes]


def torch_excitation(torch, z, reduce_kernel, expand_kernel, reduce_bias, expand_bias):
    linear = torch.nn.functional.linear
    hidden = torch.relu(linear(z, torch.tensor(reduce_kernel.T), torch.tensor(reduce_bias)))
    return linear(hidden, torch.tensor(expand_kernel.T), torch.tensor(expand_bias))


def torch_channels(torch, image, parameters, largest):
    """(image [1 C Y X] times its gates, the gates [1 C]): squeeze-excitation, or CBAM's gates with maximum pooling."""
    pool = torch.nn.functional
    logits = torch_excitation(torch, pool.adaptive_avg_pool2d(image, 1)[..., 0, 0], *parameters)
    if largest:
        logits = logits + torch_excitation(torch, pool.adaptive_max_pool2d(image, 1)[..., 0, 0], *parameters)
    gates = torch.sigmoid(logits)
    return image * gates[..., None, None], gates


def torch_positions(torch, image, kernel, bias):
    """(image times its gates, the gates [1 Y X]) by the released module's layers, with its pooled maps in our order."""
    convolution = torch.nn.Conv2d(2, 1, kernel.shape[:2], padding="same").double()
    convolution.weight.copy_(torch.tensor(kernel.transpose(3, 2, 0, 1)))
    convolution.bias.copy_(torch.tensor([float(bias)]))
    pooled = torch.cat([image.mean(1, keepdim=True), image.max(1, keepdim=True)[0]], dim=1)
    gates = torch.sigmoid(convolution(pooled))
    return image * gates, gates[:, 0]


CHANNELS = ((C, R), (R, C), (R,), (C,))


@pytest.mark.parametrize("name", ["squeeze_excitation", "channel_attention", "spatial_attention", "cbam"])
def test_gates_are_those_of_pytorch_image_by_image(name, torch):
    x, *parameters, kernel, bias = make((B, Y, X, C), *CHANNELS, (7, 3, 2, 1), ())
    flat, small = narrow(*parameters), narrow(kernel, bias)
    x32, mask = jnp.asarray(x, jnp.float32), jnp.asarray(MASK)
    call = {
        "squeeze_excitation": lambda x, m: squeeze_excitation(x, *flat, mask=m),
        "channel_attention": lambda x, m: channel_attention(x, *flat, mask=m),
        "spatial_attention": lambda x, m: spatial_attention(x, *small, mask=m),
        "cbam": lambda x, m: cbam(x, *flat[:2], small[0], *flat[2:], small[1], mask=m),
    }[name]
    got = jax.jit(call)(x32, mask)
    for b, (height, width) in enumerate(SIZES):
        with torch.no_grad():
            image = torch.tensor(x[b : b + 1, :height, :width].transpose(0, 3, 1, 2))
            gates = []
            if name != "spatial_attention":
                image, found = torch_channels(torch, image, parameters, largest=name != "squeeze_excitation")
                gates.append(found[0].numpy())
            if name in ("spatial_attention", "cbam"):
                image, found = torch_positions(torch, image, kernel, bias)
                gates.append(np.pad(found[0].numpy(), ((0, Y - height), (0, X - width))))
        np.testing.assert_allclose(got[0][b, :height, :width], image[0].numpy().transpose(1, 2, 0), atol=2e-6)
        assert not np.any(np.asarray(got[0][b])[~MASK[b]])
        for one, expected in zip(got[1:], gates, strict=True):
            np.testing.assert_allclose(one[b], expected, atol=2e-6)
    whole = jax.jit(lambda x: call(x, None))(x32[:1])
    np.testing.assert_allclose(whole[0][0], got[0][0], atol=2e-6)


def test_gates_without_biases_are_the_papers():
    """Equation 2 of squeeze-excitation and equation 2 of CBAM as printed, channel by channel."""
    x, first, second = make((B, Y, X, C), (C, R), (R, C), seed=1)
    mlp = lambda z: np.array([second[:, c] @ np.maximum(first.T @ z, 0) for c in range(C)])
    for b in range(B):
        mean = np.array([x[b, :, :, c].sum() / (Y * X) for c in range(C)])
        largest = np.array([max(x[b, i, j, c] for i, j in np.ndindex(Y, X)) for c in range(C)])
        for function, logits in ((squeeze_excitation, mlp(mean)), (channel_attention, mlp(mean) + mlp(largest))):
            out, gates = jax.jit(function)(*narrow(x[b : b + 1], first, second))
            np.testing.assert_allclose(gates[0], 1 / (1 + np.exp(-logits)), atol=2e-6)
            np.testing.assert_allclose(out[0], x[b] / (1 + np.exp(-logits)), atol=5e-6)


def test_a_kernel_without_a_centre_is_refused(unchecked):
    with pytest.raises(ValueError, match=r"kernel: axes Ky Kx of .* expected odd sizes, got \[4, 3, 2, 1\]"):
        spatial_attention(*narrow(*make((B, Y, X, C), (4, 3, 2, 1))))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def spatial64(image, h, kernel, bias, state_kernel, vector):
    """alpha pixel by pixel: W_s V + b_s + W_hs h, tanh, w_i."""
    scores = np.zeros(image.shape[:2])
    for i, j in np.ndindex(*scores.shape):
        scores[i, j] = vector @ np.tanh(kernel.T @ image[i, j] + bias + state_kernel.T @ h)
    return softmax(scores)


def channel64(image, h, kernel, bias, state_kernel, vector):
    """beta channel by channel, from the channel's mean alone."""
    scores = [
        vector @ np.tanh(kernel * image[:, :, c].mean() + bias + state_kernel.T @ h) for c in range(image.shape[2])
    ]
    return softmax(np.array(scores))


@pytest.mark.parametrize("rescaled", [False, True], ids=["paper", "released"])
@pytest.mark.parametrize("order", ["channel-spatial", "spatial-channel"])
def test_sca_is_the_equations_image_by_image(order, rescaled):
    shapes = ((C, A), (A,), (D, A), (A,)), ((E,), (E,), (D, E), (E,))
    x, state, *parameters = make((B, Y, X, C), (B, D), *shapes[0], *shapes[1], seed=2)
    spatial, channel = parameters[:4], parameters[4:]
    inputs = narrow(x, state, *parameters)
    call = jax.jit(partial(sca, order=order, rescaled=rescaled))
    got, alphas, betas = call(*inputs, mask=jnp.asarray(MASK))
    for b, (height, width) in enumerate(SIZES):
        image = x[b, :height, :width]
        pixels, channels = (height * width, C) if rescaled else (1, 1)
        if order == "channel-spatial":
            beta = channel64(image, state[b], *channel)
            alpha = spatial64(image * beta * channels, state[b], *spatial)
        else:
            alpha = spatial64(image, state[b], *spatial)
            beta = channel64(image * alpha[..., None] * pixels, state[b], *channel)
        expected = image * alpha[..., None] * beta * pixels * channels
        np.testing.assert_allclose(alphas[b, :height, :width], alpha, atol=2e-6)
        np.testing.assert_allclose(betas[b], beta, atol=2e-6)
        np.testing.assert_allclose(got[b, :height, :width], expected, atol=1e-5, rtol=1e-5)
        assert not np.any(np.asarray(got[b])[~MASK[b]]) and not np.any(np.asarray(alphas[b])[~MASK[b]])
    alone, *_ = call(*(one[:1] if one.shape[:1] == (B,) else one for one in inputs))
    np.testing.assert_allclose(alone[0], got[0], atol=1e-5, rtol=1e-5)


def test_sca_in_an_unknown_order_is_refused(unchecked):
    arrays = make((B, Y, X, C), (B, D), (C, A), (A,), (D, A), (A,), (E,), (E,), (D, E), (E,))
    with pytest.raises(ValueError, match="order: expected one of channel-spatial, spatial-channel, got 'C-S'"):
        sca(*narrow(*arrays), order="C-S")

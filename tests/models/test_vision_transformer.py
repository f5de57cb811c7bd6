"""The Vision Transformer: sums written out in NumPy, permutations of patches, gradients, refused settings.

tests/weights/test_vit.py compares logits and attention with Hugging Face's model.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis.rollout import rollout
from attention_research.config import ConfigError
from attention_research.layers.vision.patches import patches

SIDE, PATCH, CHANNELS, CLASSES, B = 15, 5, 3, 7, 2
PATCHES = (SIDE // PATCH) ** 2
PRE_NORM = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))
SECTION = {
    "kind": "vision_transformer", "side": SIDE, "channels": CHANNELS, "patch_side": PATCH, "num_classes": CLASSES,
    "max_length": PATCHES + 1, "encoder": {"steps": PRE_NORM, "final_norm": True},
}  # fmt: skip
MEAN = {"pooling": "mean", "max_length": PATCHES}
VARIANTS = {"class_token": {}, "mean": MEAN}


def images(seed=0, side=SIDE, channels=CHANNELS):
    return jnp.asarray(np.random.default_rng(seed).integers(0, 256, (B, side, side, channels)), jnp.uint8)


@pytest.fixture(scope="module")
def model(small):
    """Settings -> (parameters, a jitted (parameters, image) -> log_probabilities)."""

    def made(**settings):
        structure, parameters = small(**{**SECTION, **settings})
        return parameters, jax.jit(lambda p, image: structure.merge(p).log_probabilities({"image": image}))

    return made


def by_hand(image, parameters, pooling):
    """Equations 1 to 4 with a loop over patches and heads, in float64: (log p, attention [L B N T T])."""
    ours = {name: np.asarray(x, np.float64) for name, x in parameters.items()}
    norm = lambda x, name, l=...: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * ours[f"{name}.scale"][l]
        + ours[f"{name}.bias"][l]
    )
    dense = lambda x, name, l=...: x @ ours[f"{name}.kernel"][l] + ours[f"{name}.bias"][l]
    tokens = [] if pooling == "mean" else [np.broadcast_to(ours["class_token"], (B, 12))]
    pixels = (np.asarray(image, np.float64) / 255 - 0.5) / 0.5
    for row in range(0, SIDE, PATCH):
        for column in range(0, SIDE, PATCH):
            patch = pixels[:, row : row + PATCH, column : column + PATCH]
            tokens.append(dense(patch.reshape(B, -1), "embedding.projection"))
    z, maps, block = np.stack(tokens, axis=1) + ours["encoder.positions.table"], [], "encoder.stack.segments.0"
    for l in range(2):
        x, heads, weights = norm(z, f"{block}.norm", l), [], []
        query, key, value = (dense(x, f"{block}.self_attention.{name}", l) for name in ("query", "key", "value"))
        for head in range(3):
            own = slice(4 * head, 4 * head + 4)
            scores = query[..., own] @ key[..., own].swapaxes(1, 2) / 2.0
            softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            heads.append(softmax @ value[..., own])
            weights.append(softmax)
        z = z + dense(np.concatenate(heads, -1), f"{block}.self_attention.output", l)
        maps.append(np.stack(weights, axis=1))
        hidden = np.maximum(dense(norm(z, f"{block}.norm_2", l), f"{block}.feed_forward.hidden", l), 0)
        z = z + dense(hidden, f"{block}.feed_forward.output", l)
    z = norm(z, "encoder.final_norm")
    logits = dense(z[:, 0] if pooling == "class_token" else z.mean(1), "head")
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True)), np.stack(maps)


@pytest.mark.parametrize("pooling", VARIANTS)
def test_it_is_equations_1_to_4(model, pooling):
    parameters, run = model(**VARIANTS[pooling])
    log_p, aux = run(parameters, images())
    want, maps = by_hand(images(), parameters, pooling)
    assert log_p.shape == (B, CLASSES) and np.ptp(want) > 1
    np.testing.assert_allclose(log_p, want, atol=2e-5)
    weights = np.asarray(aux["encoder"]["segment_0"]["self_attention"]["attention_weights"])
    np.testing.assert_allclose(weights, maps, atol=1e-5)
    read = np.asarray(aux["pooling"]["weights"])
    np.testing.assert_allclose(read.sum(axis=1), 1.0, rtol=1e-6)
    assert read[0, 0] == pytest.approx(1 if pooling == "class_token" else 1 / PATCHES)
    assert rollout(weights[:, 0]).shape == (2, *maps.shape[-2:])


def blocks(image):
    """[B rows P columns P C] -> [B patches P P C], and its inverse."""
    n = SIDE // PATCH
    apart = np.asarray(image).reshape(B, n, PATCH, n, PATCH, CHANNELS).swapaxes(2, 3)
    return apart.reshape(B, n * n, PATCH, PATCH, CHANNELS)


def together(parts):
    n = SIDE // PATCH
    return parts.reshape(B, n, n, PATCH, PATCH, CHANNELS).swapaxes(2, 3).reshape(B, SIDE, SIDE, CHANNELS)


def test_patches_are_the_image_cut_up():
    image = images()
    np.testing.assert_array_equal(together(blocks(image)), image)
    cut = patches(image.astype(jnp.float32), PATCH)
    np.testing.assert_array_equal(cut, blocks(image).reshape(B, PATCHES, -1))


@pytest.mark.parametrize("pooling", VARIANTS)
def test_permuting_patches_with_their_positions_changes_nothing(model, pooling):
    parameters, run = model(**VARIANTS[pooling])
    order = np.random.default_rng(3).permutation(PATCHES)
    moved = jnp.asarray(together(blocks(images())[:, order]))
    first = 1 if pooling == "class_token" else 0
    table = parameters["encoder.positions.table"]
    along = {**parameters, "encoder.positions.table": jnp.concatenate([table[:first], table[first:][order]])}
    want, _ = run(parameters, images())
    np.testing.assert_allclose(run(along, moved)[0], want, atol=1e-5)
    assert np.abs(run(parameters, moved)[0] - want).max() > 1e-2


def test_without_positions_patches_may_be_permuted(model):
    parameters, run = model(positions={"kind": "none"})
    moved = jnp.asarray(together(blocks(images())[:, ::-1]))
    np.testing.assert_allclose(run(parameters, moved)[0], run(parameters, images())[0], atol=1e-5)


def test_sinusoids_stand_in_for_a_table(model):
    parameters, run = model(positions={"kind": "sinusoidal"})
    learned, run_learned = model()
    angles = np.arange(PATCHES + 1)[:, None] / 10000 ** (np.arange(0, 12, 2) / 12)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(PATCHES + 1, 12)
    same = {**parameters, "encoder.positions.table": jnp.asarray(table, jnp.float32)}
    assert same.keys() == learned.keys()
    np.testing.assert_allclose(run(parameters, images())[0], run_learned(same, images())[0], atol=1e-5)


@pytest.mark.parametrize("pooling", VARIANTS)
def test_gradient_reaches_every_parameter(small, pooling):
    structure, parameters = small(**SECTION | VARIANTS[pooling])
    direction = jnp.asarray(np.random.default_rng(5).normal(size=(B, CLASSES)), jnp.float32)

    @jax.jit
    @jax.grad
    def gradient(p):
        return jnp.sum(structure.merge(p).log_probabilities({"image": images()})[0] * direction)

    found = gradient(parameters)
    unreached = {name for name, x in found.items() if np.abs(x).max() < 1e-6}
    assert unreached == {"encoder.stack.segments.0.self_attention.key.bias"}  # softmax ignores it


def test_dropout_needs_a_key(small):
    (structure, parameters), (without, _) = (small(**SECTION, dropout_rate=rate) for rate in (0.5, 0.0))
    run = jax.jit(lambda p, key: structure.merge(p).log_probabilities({"image": images()}, key=key)[0])
    one, other = run(parameters, jax.random.key(0)), run(parameters, jax.random.key(1))
    assert np.abs(one - other).max() > 1e-3
    plain = jax.jit(lambda p: without.merge(p).log_probabilities({"image": images()}, key=jax.random.key(0))[0])
    np.testing.assert_array_equal(run(parameters, None), plain(parameters))


def test_bfloat16_is_near(model):
    parameters, run = model()
    half, run_half = model(dtype="bfloat16")
    assert {x.dtype for x in half.values()} == {jnp.dtype("float32")}
    want, (found, aux) = run(parameters, images())[0], run_half(parameters, images())
    assert aux["encoder"]["segment_0"]["hidden"].dtype == jnp.bfloat16 and found.dtype == jnp.float32
    assert 1e-4 < np.abs(found - want).max() < 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patch_side": 4}, "model.patch_side: 4 does not divide the images' side 15"),
        ({"patch_side": 3}, "model.max_length: 25 patches and a class token have a length of 26; got 10"),
        ({"pooling": "mean"}, "model.max_length: 9 patches have a length of 9; got 10"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_built(small, settings, message):
    with pytest.raises(ConfigError) as raised:
        small(**SECTION | settings)
    assert str(raised.value).startswith(message)


def test_other_images_are_refused_by_the_setting(model):
    parameters, run = model()
    with pytest.raises(ValueError, match="side: the model reads images of 15 x 15; these are 10 x 10"):
        run(parameters, images(side=10))
    with pytest.raises(ValueError, match="channels: expected images with 3 channels, got 1"):
        run(parameters, images(channels=1))

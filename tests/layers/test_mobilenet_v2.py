"""MobileNetV2. Oracle: table 2 in PyTorch's functions, on tensors with torchvision's names that PyTorch saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.structure import abstract
from attention_research.layers.vision.mobilenet_v2 import MobileNetV2
from attention_research.weights import mobilenet_v2, torch_archive

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
functional = torch.nn.functional

#: (t, c, s) of each of the 17 bottlenecks of table 2.
BOTTLENECKS = [
    (1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 32, 2), (6, 32, 1), (6, 32, 1), (6, 64, 2), (6, 64, 1), (6, 64, 1),
    (6, 64, 1), (6, 96, 1), (6, 96, 1), (6, 96, 1), (6, 160, 2), (6, 160, 1), (6, 160, 1), (6, 320, 1),
]  # fmt: skip


def drawn(seed=0):
    """torchvision's names -> tensors. Kernels preserve the scale of activations; norm parameters are not 0 or 1."""
    generator, tensors = torch.Generator().manual_seed(seed), {}

    def normed(convolution, norm, out, into, size):
        tensors[f"{convolution}.weight"] = (
            torch.randn(out, into, size, size, generator=generator) * (2 / (into * size**2)) ** 0.5
        )
        low_high = {"weight": (0.6, 1.3), "bias": (-0.3, 0.6), "running_mean": (-0.3, 0.3), "running_var": (0.5, 1.5)}
        for name, (low, high) in low_high.items():
            tensors[f"{norm}.{name}"] = low + (high - low) * torch.rand(out, generator=generator)
        tensors[f"{norm}.num_batches_tracked"] = torch.tensor(7)

    normed("features.0.0", "features.0.1", 32, 3, 3)
    before = 32
    for number, (expansion, channels, _) in enumerate(BOTTLENECKS, start=1):
        place, part = 0, f"features.{number}.conv"
        if expansion > 1:
            normed(f"{part}.0.0", f"{part}.0.1", expansion * before, before, 1)
            place = 1
        normed(f"{part}.{place}.0", f"{part}.{place}.1", expansion * before, 1, 3)
        normed(f"{part}.{place + 1}", f"{part}.{place + 2}", channels, expansion * before, 1)
        before = channels
    normed("features.18.0", "features.18.1", 1280, 320, 1)
    tensors["classifier.1.weight"] = torch.randn(1000, 1280, generator=generator)
    tensors["classifier.1.bias"] = torch.randn(1000, generator=generator)
    return tensors


def theirs(tensors, image):
    """Stride -> the feature map, channels last, of uint8 images."""

    def normed(x, convolution, norm, **options):
        x = functional.conv2d(x, tensors[f"{convolution}.weight"], **options)
        parts = [tensors[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(x, *parts, eps=1e-5)

    mean, deviation = (torch.tensor(x)[:, None, None] for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    x = (torch.tensor(image).permute(0, 3, 1, 2) / 255 - mean) / deviation
    x, maps = functional.relu6(normed(x, "features.0.0", "features.0.1", stride=2, padding=1)), {}
    for number, (expansion, _, stride) in enumerate(BOTTLENECKS, start=1):
        y, place, part = x, 0, f"features.{number}.conv"
        if expansion > 1:
            y, place = functional.relu6(normed(y, f"{part}.0.0", f"{part}.0.1")), 1
        depthwise = {"stride": stride, "padding": 1, "groups": y.shape[1]}
        y = functional.relu6(normed(y, f"{part}.{place}.0", f"{part}.{place}.1", **depthwise))
        y = normed(y, f"{part}.{place + 1}", f"{part}.{place + 2}")
        x = x + y if x.shape == y.shape else y
        maps |= {6: {8: x}, 13: {16: x}}.get(number, {})
    maps[32] = functional.relu6(normed(x, "features.18.0", "features.18.1"))
    return {stride: x.permute(0, 2, 3, 1).numpy() for stride, x in maps.items()}


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    """(the random tensors, our reader's result for the file that PyTorch wrote)."""
    made, file = drawn(), tmp_path_factory.mktemp("torch") / "mobilenet.pth"
    torch.save(made, file, _use_new_zipfile_serialization=False)
    return made, torch_archive.read(file)


def images(side, channels=3, batch=2):
    return np.random.default_rng(5).integers(0, 256, (batch, *side, channels), dtype=np.uint8)


def module_of(read, **settings):
    """(structure, arrays by our names) of the features alone."""
    structure, parameters, statistics = abstract(lambda rngs: MobileNetV2(**settings, dtype="float32", rngs=rngs))
    ours = {name.removeprefix("features."): x for name, x in mobilenet_v2.converted(read).items()}
    wanted = {**parameters, **statistics}
    assert {name: x.shape for name, x in wanted.items()} == {name: ours[name].shape for name in wanted}
    return structure, {name: jnp.asarray(ours[name]) for name in wanted}


def grid_of(read, image, key=None, **settings):
    structure, arrays = module_of(read, **settings)
    grid, aux = jax.jit(lambda a: structure.merge(a)(jnp.asarray(image), key=key))(arrays)
    assert aux == {"updates": {}}
    return np.asarray(grid)


@pytest.mark.slow
@pytest.mark.parametrize(("stride", "channels"), [(8, 32), (16, 96), (32, 1280)])
def test_the_map_is_pytorchs(tensors, stride, channels):
    """The image's side is not a multiple of any stride."""
    image = images((75, 53))
    grid, want = grid_of(tensors[1], image, stride=stride), theirs(tensors[0], image)[stride]
    assert grid.shape == (2, -(-75 // stride), -(-53 // stride), channels) and np.abs(want).mean() > 0.1
    np.testing.assert_allclose(grid, want, atol=1e-4 * np.abs(want).max())


@pytest.mark.slow
def test_grey_is_three_equal_channels_and_a_key_changes_nothing(tensors):
    grey = images((32, 32), channels=1)
    plain = grid_of(tensors[1], grey, stride=8)
    colours = grid_of(tensors[1], np.repeat(grey, 3, axis=-1), stride=8, key=jax.random.key(1))
    np.testing.assert_allclose(plain, colours, atol=1e-4)
    with pytest.raises(ValueError, match="^channels: MobileNetV2 expects images with 1 or 3 channels, got 4$"):
        grid_of(tensors[1], images((32, 32), channels=4), stride=8)


@pytest.mark.slow
def test_frozen_networks_have_no_parameters_and_others_train_all_but_moments(tensors):
    frozen, tuned = (
        abstract(lambda rngs, f=f: MobileNetV2(stride=8, frozen=f, dtype="float32", rngs=rngs)) for f in (True, False)
    )
    assert frozen[1] == {} and frozen[2].keys() == {*tuned[1], *tuned[2]}
    assert {name.rpartition(".")[2] for name in tuned[2]} == {"mean", "variance"} and not tuned[0].running
    structure, arrays = module_of(tensors[1], stride=8, frozen=False)
    moments = {name: arrays[name] for name in tuned[2]}
    image = jnp.asarray(images((32, 32)))
    weights = jax.random.normal(jax.random.key(0), (32,))
    loss = lambda parameters: jnp.sum(structure.merge(parameters, moments)(image)[0] * weights)
    gradients = jax.jit(jax.grad(loss))({name: arrays[name] for name in tuned[1]})
    assert all(np.abs(gradient).max() > 0 for gradient in gradients.values())


def test_another_stride_is_refused():
    with pytest.raises(ConfigError, match="^stride: expected 8, 16 or 32; got 4$"):
        MobileNetV2(stride=4, dtype="float32", rngs=nnx.Rngs(0))

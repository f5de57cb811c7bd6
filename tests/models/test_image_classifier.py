"""Image networks against PyTorch with the same weights: logits, gradients, running statistics, published counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, flat_updates
from attention_research.layers.structure import abstract, initializer, split
from attention_research.models.image_classifier import ImageClassifier
from attention_research.registry import lookup
from attention_research.signatures import Constructor

torch = pytest.importorskip("torch")
F = torch.nn.functional


def part(family, kind, **settings):
    return Constructor(lookup(family, kind), settings)


def classifier(shortcut="identity", gate="none", depth=14, channels=3, width=5, classes=7, **gate_settings):
    features = part(
        "image_features", "resnet", dtype="float32", channels=channels, width=width, depth=depth,
        shortcut=part("shortcut", shortcut), gate=part("image_gate", gate, **gate_settings),
    )  # fmt: skip
    return lambda rngs: ImageClassifier(
        num_classes=classes, width=width, features=features, pooling=part("pooling", "mean"), rngs=rngs
    )


def tensors(arrays):
    return {name: torch.tensor(np.asarray(x)) for name, x in arrays.items()}


def conv(x, kernel, stride=1):
    return F.conv2d(x, kernel.permute(3, 2, 0, 1), stride=stride, padding=kernel.shape[0] // 2)


class Reference:
    """The network of He et al. 2015, section 4.2, in PyTorch, layer by layer."""

    def __init__(self, arrays, shortcut, gate, training):
        self.w, self.shortcut, self.gate, self.training = arrays, shortcut, gate, training

    def norm(self, x, name, index):
        get = lambda one: self.w[f"{name}.{one}"][index]
        return F.batch_norm(
            x, get("mean"), get("variance"), get("scale"), get("bias"), training=self.training, momentum=0.1, eps=1e-5
        )

    def block(self, x, name, index, stride):
        get = lambda one: self.w[f"{name}.{one}"][index]
        y = F.relu(self.norm(conv(x, get("convolution_1.kernel"), stride), f"{name}.norm_1", index))
        y = self.norm(conv(y, get("convolution_2.kernel")), f"{name}.norm_2", index)
        if self.gate == "squeeze_excitation":
            hidden = F.relu(y.mean((2, 3)) @ get("gate.excitation.reduce_kernel"))
            y = y * torch.sigmoid(hidden @ get("gate.excitation.expand_kernel"))[:, :, None, None]
        if self.shortcut == "none":
            return F.relu(y)
        if self.shortcut == "projection" and (stride > 1 or x.shape[1] != y.shape[1]):
            x = self.norm(conv(x, get("shortcut.convolution.kernel"), stride), f"{name}.shortcut.norm", index)
        elif x.shape[1] != y.shape[1]:
            more = y.shape[1] - x.shape[1]
            x = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, more // 2, more - more // 2))
        return F.relu(x + y)

    def __call__(self, image, blocks):
        x = (torch.tensor(image).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
        x = F.relu(self.norm(conv(x, self.w["features.stem.kernel"]), "features.norm", ...))
        for stage in range(3):
            x = self.block(x, f"features.first.{stage}", ..., 1 if stage == 0 else 2)
            for number in range(blocks - 1):
                x = self.block(x, f"features.segments.{stage}", number, 1)
        return F.log_softmax(x.mean((2, 3)) @ self.w["output.kernel"] + self.w["output.bias"], dim=1)


def disturbed(arrays, seed=0):
    """Adds noise to arrays, so that no value is exactly 0 or 1."""
    rng = np.random.default_rng(seed)
    return {name: x + 0.2 * jnp.asarray(rng.random(x.shape) - 0.5, x.dtype) for name, x in arrays.items()}


def drawn(shapes, seed=1):
    """Arrays of these shapes: kernels that preserve the scale of their input, gains and variances near 1."""
    rng = np.random.default_rng(seed)
    fan = lambda x: float(np.prod(x.shape[-4:-1])) if x.ndim > 3 else float(x.shape[-2])
    small = lambda name, x: 0.2 * (rng.random(x.shape) - 0.5) + name.endswith(("scale", "variance"))
    value = lambda name, x: rng.normal(size=x.shape) * fan(x) ** -0.5 if "kernel" in name else small(name, x)
    return {name: jnp.asarray(value(name, x), x.dtype) for name, x in sorted(shapes.items())}


NETWORKS = {
    "identity": ("identity", "none"), "plain": ("none", "none"),
    "projection_with_gates": ("projection", "squeeze_excitation"),
}  # fmt: skip
#: Each way of running, and two of the networks. The others are slow tests.
QUICK = ("identity-training", "plain-evaluation")
CASES = {
    f"{name}-{mode}": (*network, mode == "training")
    for mode in ("evaluation", "training")
    for name, network in NETWORKS.items()
}


@pytest.mark.parametrize(
    ("shortcut", "gate", "training"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, case in CASES.items()],
)
def test_residual_networks_are_those_of_pytorch(shortcut, gate, training):
    settings = {"reduction": 3} if gate != "none" else {}
    structure, *shapes = abstract(classifier(shortcut, gate, **settings))
    parameters, statistics = map(drawn, shapes)
    image = np.random.default_rng(2).integers(0, 256, (3, 11, 13, 3)).astype(np.uint8)
    label = np.array([6, 0, 3])

    def loss(parameters):
        key = jax.random.key(0) if training else None
        log_p, aux = structure.merge(parameters, statistics).log_probabilities({"image": jnp.asarray(image)}, key=key)
        return -jnp.take_along_axis(log_p, jnp.asarray(label)[:, None], 1).sum(), (log_p, aux[UPDATES])

    (_, (log_p, updates)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(parameters)
    arrays = tensors({**parameters, **statistics})
    trained = {name: arrays[name].requires_grad_() for name in parameters}
    expected = Reference(arrays, shortcut, gate, training)(image, blocks=2)
    np.testing.assert_allclose(log_p, expected.detach(), atol=2e-4)
    expected[range(3), label].sum().neg().backward()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, trained[name].grad, atol=2e-3, err_msg=name)
    assert set(flat_updates(updates)) == (structure.running if training else set())
    for name, new in flat_updates(updates).items():
        np.testing.assert_allclose(new, arrays[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("depth", "printed"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_parameters_are_those_that_the_paper_prints(depth, printed):
    """He et al. 2015, Table 6, in millions: CIFAR-10, identity shortcuts."""
    _, parameters, _ = abstract(classifier(depth=depth, width=16, classes=10))
    count = sum(int(np.prod(x.shape)) for x in parameters.values())
    assert round(count / 1e6, 1 if printed == 1.7 else 2) == printed


def test_training_and_evaluation_use_separate_moments():
    """In training a norm uses the batch and not its arrays, in evaluation the running statistics."""
    norm = BatchNorm(5, rngs=nnx.Rngs(0))
    x = jnp.asarray(np.random.default_rng(0).normal(3.0, 2.0, (17, 7, 5)), jnp.float32)
    before = jax.tree.map(jnp.copy, split(norm)[1:])
    y, updates = norm(x, training=True)
    np.testing.assert_allclose(jnp.mean(y, axis=(0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(updates["mean"], 0.1 * jnp.mean(x, axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(updates["variance"], 0.9 + 0.1 * np.var(x, axis=(0, 1), ddof=1), rtol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, before, split(norm)[1:])
    np.testing.assert_allclose(norm(x, training=False)[0], x / np.sqrt(1 + 1e-5), rtol=1e-5)


def test_the_smallest_network_has_one_block_a_stage():
    """Its updates have the shapes of its statistics, and no array is empty."""
    make = classifier(depth=8)
    structure, parameters, statistics = abstract(make)
    assert all(x.size for x in {**parameters, **statistics}.values())
    image = jnp.zeros((2, 8, 8, 3), jnp.uint8)
    run = lambda p, s, key: structure.merge(p, s).log_probabilities({"image": image}, key=key)[1][UPDATES]
    updates = jax.eval_shape(run, parameters, statistics, jax.random.key(0))
    assert set(flat_updates(updates)) == structure.running == set(statistics)


def test_a_depth_that_no_network_has_is_refused():
    with pytest.raises(ConfigError, match="6n \\+ 2 .*got 21"):
        abstract(classifier(depth=21))


GATES = {
    "squeeze_excitation": {"reduction": 3},
    "channel": {"reduction": 3},
    "spatial": {"size": 3},
    "normalized_spatial": {"size": 3},
    "cbam": {"reduction": 3, "size": 3},
    "normalized_cbam": {"reduction": 3, "size": 3},
    "sca": {"attention_width": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("gate", GATES)
def test_every_weight_of_a_gate_is_learned(gate):
    """Further outputs of a gate have the shapes of channels and pixels, for every block."""
    make = classifier(gate=gate, depth=14, **GATES[gate])
    structure = abstract(make)[0]
    parameters, statistics = jax.jit(initializer(make))(jax.random.key(1))
    image = np.random.default_rng(2).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)

    def loss(parameters):
        model = structure.merge(disturbed(parameters), statistics)
        log_p, aux = model.log_probabilities({"image": jnp.asarray(image)}, key=jax.random.key(0))
        return -log_p[:, 3].sum(), aux["features"]["gates"]

    gradients, gates = jax.jit(jax.grad(loss, has_aux=True))(parameters)
    dead = [name for name, gradient in gradients.items() if not np.any(gradient)]
    assert not dead
    for name, weights in gates["stage_1"]["others"].items():
        assert weights.shape == {"channels": (1, 3, 10), "pixels": (1, 3, 4, 4)}[name]


def test_frozen_features_are_constant_statistics():
    """A frozen network has no parameters and replaces nothing. Its map is that of the same weights."""
    settings = {"dtype": "float32", "channels": 3, "width": 3, "num_layers": 2, "halvings": 1}
    build = lambda frozen: abstract(lambda rngs: lookup("image_features", "cnn")(**settings, frozen=frozen, rngs=rngs))
    trained, parameters, statistics = build(False)
    frozen, nothing, held = build(True)
    assert not nothing and not frozen.running and held.keys() == {**parameters, **statistics}.keys()
    assert trained.running == statistics.keys()

"""Optimizers over several updates against the papers' algorithms in float64 NumPy, and against PyTorch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import ConfigError, load
from attention_research.training.muon import Muon, hidden
from attention_research.training.optimizers import (
    SGD,
    Adadelta,
    Adafactor,
    Adam,
    AdamW,
    RMSProp,
    decayed,
    per_layer,
    stack_of,
)
from attention_research.training.simplex import Simplex

UPDATES = 5
#: A matrix and a vector, and the same for a stack of 3 layers.
SHAPES = {
    "norm.scale": (7,),
    "vocabulary.table": (5, 7),
    "encoder.stack.segments.0.query.kernel": (3, 5, 7),
    "encoder.stack.segments.0.query.bias": (3, 7),
}
RATES = np.array([0.3, 0.1, 0.2, 0.05, 0.4])


def values(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {name: scale * rng.standard_normal(shape) for name, shape in SHAPES.items()}


START, GRADIENTS = values(0), [values(1 + t, scale=10.0 ** (t - 2)) for t in range(UPDATES)]


def ours(optimizer, start=START, gradients=GRADIENTS):
    """The parameters after each update, with one learning rate for each."""
    transformation = optimizer(lambda count: jnp.asarray(RATES, jnp.float32)[count])
    array = lambda tree: {name: jnp.asarray(x, jnp.float32) for name, x in tree.items()}
    parameters, history = array(start), []
    state = transformation.init(parameters)

    @jax.jit
    def update(gradient, state, parameters):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = transformation.update(gradient, state, parameters)
            return {name: x + updates[name] for name, x in parameters.items()}, state

    for gradient in gradients:
        parameters, state = update(array(gradient), state, parameters)
        history.append({name: np.asarray(x) for name, x in parameters.items()})
    return history


def by_the_paper(rule):
    """The same by `rule(x, g, t, rate, memory) -> x` in float64, on each layer's array separately."""
    layers = {}
    for name, x in START.items():
        for l in range(len(x)) if stack_of(name) else (None,):
            own, memory, history = (x if l is None else x[l]).copy(), {}, []
            for t, gradient in enumerate(GRADIENTS, 1):
                g = gradient[name] if l is None else gradient[name][l]
                own = rule(own, g, t, RATES[t - 1], memory, name)
                history.append(own)
            layers.setdefault(name, []).append(history)
    pick = lambda name, t: [h[t] for h in layers[name]]
    stacked = lambda name, t: np.stack(pick(name, t)) if stack_of(name) else pick(name, t)[0]
    return [{name: stacked(name, t) for name in START} for t in range(UPDATES)]


def moving(memory, key, new, decay):
    memory[key] = decay * memory.get(key, 0.0) + (1 - decay) * new
    return memory[key]


def adam(b1, b2, epsilon, weight_decay=0.0):
    """Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2 (decay only for the named parameters)."""

    def rule(x, g, t, rate, memory, name):
        m, v = moving(memory, "m", g, b1), moving(memory, "v", g**2, b2)
        decay = weight_decay if name.endswith(("kernel", "table")) else 0.0
        return x - rate * (m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + epsilon) + decay * x)

    return rule


def adadelta(rho, epsilon):
    """Zeiler 2012, algorithm 1."""

    def rule(x, g, t, rate, memory, name):
        of_gradient = moving(memory, "g", g**2, rho)
        step = np.sqrt(memory.get("x", 0.0) + epsilon) / np.sqrt(of_gradient + epsilon) * g
        moving(memory, "x", step**2, rho)
        return x - rate * step

    return rule


def rmsprop(decay, epsilon):
    """Tieleman & Hinton 2012, with epsilon outside the root, as in PyTorch."""
    return lambda x, g, t, rate, memory, name: x - rate * g / (np.sqrt(moving(memory, "g", g**2, decay)) + epsilon)


def adafactor(exponent, clip, factored):
    """Shazeer & Stern 2018, algorithms 4 (matrices) and 5 (vectors)."""
    rms = lambda y: np.sqrt(np.mean(y**2))

    def rule(x, g, t, rate, memory, name):
        b, square = 1 - t**-exponent, g**2 + 1e-30
        if g.ndim == 2 and factored:
            row, column = (moving(memory, axis, square.sum(axis), b) for axis in (1, 0))
            v = np.outer(row, column) / row.sum()
        else:
            v = moving(memory, "v", square, b)
        u = g / np.sqrt(v)
        return x - rate * max(1e-3, rms(x)) * u / max(1.0, rms(u) / clip)

    return rule


def sgd(momentum, nesterov):
    """v_t = momentum v_{t-1} + g. The step is v_t, or g + momentum v_t with Nesterov momentum."""

    def rule(x, g, t, rate, memory, name):
        memory["v"] = momentum * memory.get("v", 0.0) + g
        return x - rate * (g + momentum * memory["v"] if nesterov else memory["v"])

    return rule


def muon(momentum, nesterov, scaling, weight_decay, adam_rate=1.0, b1=0.9, b2=0.95):
    """Jordan et al. 2024: the momentum's Newton-Schulz iteration for kernels; AdamW for the others."""
    others = adam(b1, b2, 1e-8, weight_decay)

    def rule(x, g, t, rate, memory, name):
        if not name.endswith("kernel"):
            return others(x, g, t, adam_rate * rate, memory, name)
        m = moving(memory, "m", g, momentum) / (1 - momentum ** (t + nesterov))
        y = momentum * m + (1 - momentum) * g / (1 - momentum**t) if nesterov else m
        y = y / np.linalg.norm(y)
        for _ in range(5):
            square = y @ y.T
            y = 3.4445 * y + (-4.7750 * square + 2.0315 * square @ square) @ y
        n, width = x.shape
        factor = 0.2 * np.sqrt(max(n, width)) if scaling == "rms" else np.sqrt(max(1, width / n))
        return x - rate * (factor * y + weight_decay * x)

    return rule


PAPERS = {
    "adam": (Adam(), adam(0.9, 0.98, 1e-9)),
    "adam-other": (Adam(b1=0.5, b2=0.7, epsilon=0.1), adam(0.5, 0.7, 0.1)),
    "adamw": (AdamW(weight_decay=0.3), adam(0.9, 0.999, 1e-8, 0.3)),
    "adadelta": (Adadelta(), adadelta(0.95, 1e-6)),
    "adadelta-other": (Adadelta(rho=0.6, epsilon=1e-2), adadelta(0.6, 1e-2)),
    "rmsprop": (RMSProp(), rmsprop(0.99, 1e-8)),
    "rmsprop-other": (RMSProp(decay=0.6, epsilon=0.1), rmsprop(0.6, 0.1)),
    "adafactor-factored": (Adafactor(min_dim_size_to_factor=5), adafactor(0.8, 1.0, True)),
    "adafactor-unfactored": (Adafactor(), adafactor(0.8, 1.0, False)),
    "adafactor-other": (
        Adafactor(min_dim_size_to_factor=2, decay_exponent=0.5, clipping_threshold=0.4),
        adafactor(0.5, 0.4, True),
    ),
    "sgd": (SGD(), sgd(0.0, False)),
    "sgd-momentum": (SGD(momentum=0.9), sgd(0.9, False)),
    "sgd-nesterov": (SGD(momentum=0.8, nesterov=True), sgd(0.8, True)),
    "muon": (Muon(), muon(0.95, True, "rms", 0.1)),
    "muon-other": (
        Muon(momentum=0.7, nesterov=False, scaling="width", weight_decay=0.3, adam_rate=0.5, b1=0.6, b2=0.8),
        muon(0.7, False, "width", 0.3, 0.5, 0.6, 0.8),
    ),
    "simplex": (Simplex(inner=SGD), sgd(0.0, False)),  # branch weights: tests/training/test_simplex.py
}


@pytest.mark.parametrize("name", PAPERS)
def test_updates_are_the_papers(name):
    optimizer, rule = PAPERS[name]
    for got, want in zip(ours(optimizer), by_the_paper(rule), strict=True):
        for key in want:
            np.testing.assert_allclose(got[key], want[key], rtol=2e-5, atol=2e-5, err_msg=key)


TORCH = {
    "adam": (Adam(b1=0.8, epsilon=1e-6), "Adam", dict(betas=(0.8, 0.98), eps=1e-6)),
    "adamw": (AdamW(weight_decay=0.2), "AdamW", dict(eps=1e-8, weight_decay=0.2)),
    "adadelta": (Adadelta(), "Adadelta", dict(rho=0.95, eps=1e-6)),
    "rmsprop": (RMSProp(decay=0.9), "RMSprop", dict(alpha=0.9, eps=1e-8)),
    "sgd": (SGD(momentum=0.7, nesterov=True), "SGD", dict(momentum=0.7, nesterov=True)),
    "sgd-decayed": (SGD(momentum=0.7, weight_decay=0.2), "SGD", dict(momentum=0.7, weight_decay=0.2)),
}


@pytest.mark.parametrize("name", TORCH)
def test_updates_are_pytorchs(name, torch):
    """Compares the matrices, since both libraries apply weight decay to them."""
    optimizer, peer, settings = TORCH[name]
    names = [key for key in SHAPES if key.endswith(("kernel", "table"))]
    theirs = {key: torch.nn.Parameter(torch.tensor(START[key], dtype=torch.float32)) for key in names}
    run = getattr(torch.optim, peer)(theirs.values(), lr=1.0, **settings)
    history = ours(optimizer)
    for t, gradient in enumerate(GRADIENTS):
        run.param_groups[0]["lr"] = RATES[t]
        for key, parameter in theirs.items():
            parameter.grad = torch.tensor(gradient[key], dtype=torch.float32)
        run.step()
        for key, parameter in theirs.items():
            np.testing.assert_allclose(history[t][key], parameter.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scaling", ["rms", "width"])
def test_muons_updates_are_pytorchs(scaling, torch):
    """PyTorch iterates in bfloat16 and stores kernels as [out, in]. Without Nesterov momentum it has no bias correction
    that matters: a factor of the momentum disappears in the normalisation."""
    name = "encoder.stack.segments.0.query.kernel"
    theirs = [torch.nn.Parameter(torch.tensor(x.T, dtype=torch.float32)) for x in START[name]]
    adjust = {"rms": "match_rms_adamw", "width": "original"}[scaling]
    run = torch.optim.Muon(theirs, momentum=0.8, nesterov=False, weight_decay=0.3, adjust_lr_fn=adjust)
    history = ours(Muon(momentum=0.8, nesterov=False, scaling=scaling, weight_decay=0.3))
    for t, gradient in enumerate(GRADIENTS):
        run.param_groups[0]["lr"] = RATES[t]
        for parameter, g in zip(theirs, gradient[name], strict=True):
            parameter.grad = torch.tensor(g.T, dtype=torch.float32)
        run.step()
        for l, parameter in enumerate(theirs):
            np.testing.assert_allclose(history[t][name][l], parameter.detach().numpy().T, atol=0.02)


def test_muon_orthogonalises_each_layer_and_each_expert():
    """All singular values of an update are near those of every other, whatever the gradient's are."""
    name = "stack.segments.0.feed_forward.experts.hidden.kernel"
    start = {name: np.zeros((2, 3, 5, 7))}
    gradient = np.random.default_rng(0).standard_normal((2, 3, 5, 7)) * np.logspace(0, 4, 6).reshape(2, 3, 1, 1)
    update = ours(Muon(momentum=0.0, nesterov=False), start, [{name: gradient}])[0][name]
    values = np.linalg.svd(update / (RATES[0] * 0.2 * np.sqrt(7)), compute_uv=False)
    assert values.shape == (2, 3, 5) and 0.5 < values.min() and values.max() < 1.3


def test_muon_is_for_hidden_matrices():
    matrices = (
        "encoder.stack.segments.0.self_attention.query.kernel", "decoder.from_context.kernel",
        "layers.cells.0.input_kernel", "stack.segments.0.feed_forward.experts.output.kernel",
        "embedding.projection.kernel", "stack.segments.0.feed_forward.gate.kernel",
    )  # fmt: skip
    others = (
        "vocabulary.output_kernel", "vocabulary.projection.kernel", "head.kernel", "output.kernel", "norm.scale",
        "features.convolutions.0.kernel", "features.segments.0.convolution_1.kernel", "features.stem.kernel",
        "stack.segments.0.self_attention.query.bias", "positions.table", "first_kernel", "encoder.positions.kernel",
        "features.first.0.gate.kernel", "features.first.0.gate.spatial.kernel",
    )  # fmt: skip
    assert all(map(hidden, matrices)) and not any(map(hidden, others))


def test_every_optimizer_of_the_registry_is_tested():
    from attention_research.registry import FAMILIES

    named = {path.split(":")[1] for path in FAMILIES["optimizer"].values()}
    assert {type(optimizer).__name__ for optimizer, _ in PAPERS.values()} == named


def test_a_stack_is_updated_as_its_layers_are():
    """Without `per_layer` Adafactor would scale and clip all layers together, which gives other updates."""
    layer, stack = {"query.kernel": (5, 7), "query.bias": (7,)}, "encoder.stack.segments.0"
    pick = lambda tree, l: {name: tree[f"{stack}.{name}"][l] for name in layer}
    optimizer = Adafactor(min_dim_size_to_factor=2)
    together = ours(optimizer)[-1]
    for l in range(3):
        alone = ours(optimizer, pick(START, l), [pick(g, l) for g in GRADIENTS])[-1]
        for name in layer:
            np.testing.assert_allclose(together[f"{stack}.{name}"][l], alone[name], rtol=1e-6, atol=1e-6)


def test_adafactor_keeps_a_row_and_a_column_of_each_layer():
    """The state's arrays are stored under their parameter's name, where the sharding rules look for them."""
    state = jax.eval_shape(Adafactor(min_dim_size_to_factor=5)(lambda count: 0.1).init, START)
    stack, kernel = "encoder.stack.segments.0", "encoder.stack.segments.0.query.kernel"
    moments = state[stack][0]
    assert moments.v_row[kernel].shape == (3, 5) and moments.v_col[kernel].shape == (3, 7)
    assert moments.v[kernel].size == 3 and moments.v[f"{stack}.query.bias"].shape == (3, 7)


def test_stacks_are_recognised_by_name():
    assert stack_of("decoder.stack.segments.12.cross_attention.query.kernel") == "decoder.stack.segments.12"
    assert stack_of("vocabulary.table") == stack_of("segments_of.kernel") == ""


def test_per_layer_keeps_the_order_of_names():
    import optax

    transformation = per_layer(optax.scale(2.0))
    gradient = {"z": jnp.ones(2), "a.segments.0.b": jnp.ones((2, 3)), "c": jnp.ones(1)}
    updates, _ = transformation.update(gradient, transformation.init(gradient), gradient)
    assert list(updates) == list(gradient) and all((x == 2.0).all() for x in updates.values())


def test_weight_decay_goes_by_name():
    assert decayed({"a.kernel": 0, "a.bias": 0, "norm.scale": 0, "vocabulary.table": 0}) == {
        "a.kernel": True, "a.bias": False, "norm.scale": False, "vocabulary.table": True,
    }  # fmt: skip
    with jax.numpy_dtype_promotion("standard"):
        optimizer = AdamW(weight_decay=0.5)(lambda count: 0.1)
        parameters = {"a.kernel": jnp.ones((2, 2)), "a.bias": jnp.ones((2, 2))}
        zero = jax.tree.map(jnp.zeros_like, parameters)
        updates, _ = optimizer.update(zero, optimizer.init(parameters), parameters)
    assert (updates["a.bias"] == 0).all() and np.allclose(updates["a.kernel"], -0.05)


def test_nesterov_without_momentum_is_refused(root):
    config = load(f"{root}/configs/translation/transformer.py:smoke")
    with pytest.raises(ConfigError, match=r"config.training.optimizer.nesterov: .* momentum"):
        config.override([("training.optimizer", {"kind": "sgd", "nesterov": True})])
    config.override([("training.optimizer", {"kind": "sgd", "nesterov": True, "momentum": 0.5})])

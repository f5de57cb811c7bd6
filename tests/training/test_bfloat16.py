"""bfloat16 compute with float32 parameters, through the whole train step: dtypes of products and arrays, accuracy."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attention_research.accounting import programs
from attention_research.config import build_experiment
from attention_research.layers.structure import abstract
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.optimizers import SGD
from attention_research.training.step import initial_state, make_train_step

#: The largest relative error of one rounding to bfloat16 (8 bits of significand).
ROUNDING = 2.0**-8
#: Gradient descent: at first with updates below bfloat16's resolution, then with updates that reduce the loss.
CREEPING, FALLING = 20, 20


@dataclasses.dataclass
class Run:
    """A small Transformer's step and start. `entering` holds the dtypes of the gradients that optax received."""

    start: Any
    step: Any
    entering: set[str]


def small_models():
    spec = importlib.util.spec_from_file_location("small_models", Path(__file__).parents[1] / "models" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spied(entering):
    """The identity, which records the dtypes of its input."""

    def update(gradients, state, parameters):
        entering.update(str(x.dtype) for x in jax.tree.leaves(gradients))
        return gradients, state

    return optax.GradientTransformation(lambda parameters: optax.EmptyState(), update)


def rate(count):
    """The learning rate of an update."""
    return jnp.where(count < CREEPING, 1e-3, 0.3)


def run_of(**model):
    parts = build_experiment(small_models().resolved(**{"num_layers": 1, "dropout_rate": 0.0, **model}))
    make, entering = lambda rngs: parts.model(rngs=rngs), set()
    optimizer = optax.chain(spied(entering), SGD(momentum=0.1)(rate))
    step = make_train_step(abstract(make)[0], parts.task(), optimizer, rate)
    return Run(initial_state(make, optimizer), step, entering)


def batch_of(seed):
    rng = np.random.default_rng(seed)
    batch = {name: rng.integers(4, 29, (6, 13)).astype(np.int32) for name in ("source", "target")}
    batch["target"][2:, 7:] = 0
    return batch


def products(jaxpr):
    """(operand dtypes, multiply-adds) of every matrix product, including those inside loops and calls."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (v.aval for v in equation.invars)
            contracted = np.prod([left.shape[axis] for axis in equation.params["dimension_numbers"][0][0]])
            yield {str(left.dtype), str(right.dtype)}, int(equation.outvars[0].aval.size * contracted)
        for inner in programs.inner_programs(equation):
            yield from products(inner)


MIXED = {
    "vocabulary": {"kind": "separate"},
    "positions": {"kind": "none"},
    "encoder": {"self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9}, "remat": True},
    "decoder": {
        "self_attention": {"kind": "relative", "max_distance": 3},
        "cross_attention": {"kind": "linformer", "rank": 5},
    },
}


@pytest.fixture(scope="module")
def low():
    return run_of(dtype="bfloat16")


@pytest.mark.parametrize("name", ["standard", "mixed"])
def test_products_are_bfloat16_and_stored_arrays_are_float32(name, low):
    """Every product of the forward and backward pass is in bfloat16, except for the lookup of T5's biases.

    That lookup is a product with a one-hot matrix, which is small and exact in float32 only.
    """
    run = low if name == "standard" else run_of(dtype="bfloat16", **MIXED)
    state = jax.eval_shape(run.start, 0)
    program, (after, metrics) = jax.make_jaxpr(run.step, return_shape=True)(state, batch_of(0))
    found = list(products(program.jaxpr))
    others = [work for dtypes, work in found if dtypes != {"bfloat16"}]
    assert len(found) > 40 and sum(others) <= (0.01 * sum(work for _, work in found) if name == "mixed" else 0)
    for tree in (state, after, metrics):
        assert {str(x.dtype) for x in jax.tree.leaves(tree)} <= {"float32", "int32", "bool"}
    assert run.entering == {"float32"} and metrics["loss"].dtype == jnp.float32


def numpy_of(tree):
    return jax.tree.map(np.asarray, tree)


def followed(run, step, steps, between=lambda parameters: parameters):
    """(losses, state before, state after) of some updates. `between` is applied to the parameters after each update."""
    state, losses = jax.jit(run.start)(0), []
    first = numpy_of(state)
    for t in range(steps):
        state, metrics = step(state, batch_of(t % 2))
        state["parameters"] = between(state["parameters"])
        losses.append(float(metrics["loss"]))
    return np.array(losses), first, state


@pytest.fixture(scope="module")
def steps(low):
    """{dtype: (run, its compiled step)}"""
    full = run_of()
    return {"bfloat16": (low, jax.jit(low.step)), "float32": (full, jax.jit(full.step))}


@pytest.fixture(scope="module")
def rounding():
    """Rounds parameters to bfloat16."""
    return jax.jit(lambda tree: jax.tree.map(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), tree))


@pytest.fixture(scope="module")
def gradients(steps, rounding):
    """Gradients at the start, from momentum's first trace: (bfloat16, float32, float32 at rounded parameters)."""
    of = lambda dtype, state: numpy_of(optax.tree.get(steps[dtype][1](state, batch_of(0))[0], "trace"))
    start = jax.jit(steps["float32"][0].start)(0)
    rounded = {**start, "parameters": rounding(start["parameters"])}
    return of("bfloat16", start), of("float32", start), of("float32", rounded)


def distance(a, b):
    return np.sqrt(sum(np.sum(np.square(a[name].astype(np.float64) - b[name])) for name in b))


@pytest.mark.slow
def test_gradient_errors_are_those_of_rounded_weights(gradients):
    """The error is within 3 times the error from rounding the weights alone (measured: 1.4).

    For each parameter it is within 12 roundings of the gradient's norm (measured: 8.4), or of a hundredth of the total
    norm for key biases, whose gradient is 0 up to rounding.
    """
    low, full, rounded = gradients
    assert 0 < distance(low, full) <= 3 * distance(rounded, full)
    floor = 1e-2 * distance(full, {name: np.zeros(()) for name in full})
    for name, x in full.items():
        assert distance({name: low[name]}, {name: x}) <= 12 * ROUNDING * max(np.linalg.norm(x), floor), name


@pytest.mark.slow
def test_updates_are_applied_to_float32_parameters(gradients, steps):
    """Compared with the rule in float64 on the bfloat16 gradient: equal up to float32 rounding, not bfloat16."""
    run, step = steps["bfloat16"]
    _, first, after = followed(run, step, 1)
    for name, x in first["parameters"].items():
        want = x.astype(np.float64) - 1e-3 * gradients[0][name].astype(np.float64)
        np.testing.assert_allclose(np.asarray(after["parameters"][name]), want, rtol=2e-6, atol=2e-8, err_msg=name)


@pytest.mark.slow
def test_losses_stay_near_the_float32_runs(steps):
    """The loss falls by a fifth.

    At every step the two losses differ by less than one bfloat16 rounding (measured: 0.4).
    """
    low, full = (followed(*steps[dtype], CREEPING + FALLING)[0] for dtype in ("bfloat16", "float32"))
    assert full[-1] < 0.85 * full[0] and (low != full).any()
    assert (np.abs(low - full) <= ROUNDING * full).all()


def test_updates_below_bfloat16s_resolution_add_up(steps, rounding):
    """20 updates that are each too small for a bfloat16 weight move the float32 parameters as in the float32 run.

    Weights that are rounded after every update would stay where they were, except for the smallest of them.
    """
    moved = lambda first, state: {n: np.asarray(state["parameters"][n]) - x for n, x in first["parameters"].items()}
    low, full = (moved(*followed(*steps[dtype], CREEPING)[1:]) for dtype in ("bfloat16", "float32"))
    assert distance(low, full) <= 3 * ROUNDING * distance(full, {name: np.zeros(()) for name in full})
    _, first, state = followed(*steps["bfloat16"], CREEPING, rounding)
    start = numpy_of(rounding(first["parameters"]))
    kernels = [name for name in full if name.endswith("kernel")]
    share = lambda now: np.mean(np.concatenate([(now[name] != start[name]).ravel() for name in kernels]))
    assert share(numpy_of(state["parameters"])) < 0.1
    assert np.mean(np.concatenate([(low[name] != 0).ravel() for name in kernels])) > 0.99


def test_a_checkpoint_restores_the_parameters_bitwise(steps, tmp_path):
    run, step = steps["bfloat16"]
    state = followed(run, step, 3)[2]
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, state)
        checkpoints.wait()
        restored = checkpoints.restore(3, jax.eval_shape(run.start, 0))
    for one, other in ((state, restored), (step(state, batch_of(7)), step(restored, batch_of(7)))):
        same = jax.tree.map(lambda x, y: x.dtype == y.dtype and (np.asarray(x) == np.asarray(y)).all(), one, other)
        assert jax.tree.all(same)
    kernel = state["parameters"]["encoder.stack.segments.0.self_attention.query.kernel"]
    assert (np.asarray(kernel) != np.asarray(kernel.astype(jnp.bfloat16), np.float32)).mean() > 0.9

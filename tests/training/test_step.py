"""The pure train step against Adam and the loss written out in NumPy; devices and replicas change nothing."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.tasks.translation import Translation
from attention_research.training.optimizers import Adam
from attention_research.training.schedules import Noam
from attention_research.training.step import initial_state, make_train_step


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Table:
    """The smallest model of the protocol: a bigram-free table of logits, the same at every position."""

    def __init__(self, logits):
        self.logits = logits

    def log_likelihood(self, batch, *, key=None):
        log_p = jax.nn.log_softmax(self.logits)
        return {
            "log_likelihood": log_p[batch["target"]],
            "smooth_log_likelihood": jnp.broadcast_to(log_p.mean(), batch["target"].shape),
            "mask": batch["target"] != 0,
        }, {}


def test_label_smoothing_is_cross_entropy_with_the_smoothed_target():
    logits = np.random.default_rng(0).standard_normal(7)
    target = np.array([[3, 5, 2, 0], [4, 2, 0, 0]])
    log_p, total, nll = log_softmax(logits), 0.0, 0.0
    for y in target[target != 0]:
        smoothed = np.full(7, 0.1 / 7)
        smoothed[y] += 0.9
        total -= (smoothed * log_p).sum()
        nll -= log_p[y]
    loss, sums = Translation(label_smoothing=0.1).loss(
        Table(jnp.asarray(logits)), {"target": jnp.asarray(target)}, None
    )
    assert float(loss) == pytest.approx(total, rel=1e-5)
    assert float(sums["negative_log_likelihood"]) == pytest.approx(nll, rel=1e-5)
    assert float(Translation().count({"target": jnp.asarray(target)})) == 5


class TableStructure:
    """merge() of the one array."""

    def merge(self, parameters, statistics):
        return Table(parameters["logits"])


def test_a_step_is_adam_on_the_mean_token_loss():
    """Three updates against Adam (Kingma & Ba 2015, algorithm 1) and the softmax gradient in NumPy."""
    logits = np.random.default_rng(0).standard_normal(7)
    target = np.array([[3, 5, 2, 0], [4, 2, 0, 0]])
    schedule = Noam(warmup_steps=2)(1.0, width=16, steps=10)
    optimizer = Adam()(schedule)
    parameters = {"logits": jnp.asarray(logits, jnp.float32)}
    state = {
        "step": jnp.zeros((), jnp.int32), "seed": jnp.zeros((), jnp.int32), "parameters": parameters, "statistics": {},
        "optimizer": optimizer.init(parameters),
    }  # fmt: skip
    step = jax.jit(make_train_step(TableStructure(), Translation(label_smoothing=0.1), optimizer, schedule))
    m = v = np.zeros(7)
    for t in (1, 2, 3):
        p = np.exp(log_softmax(logits))
        goal = np.full(7, 0.1 / 7) + 0.9 * np.bincount(target[target != 0], minlength=7) / 5
        gradient = p - goal
        state, metrics = step(state, {"target": jnp.asarray(target)})
        assert float(metrics["gradient_norm"]) == pytest.approx(np.linalg.norm(gradient), rel=1e-4)
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        rate = 16**-0.5 * min(t**-0.5, t * 2**-1.5)
        assert float(metrics["learning_rate"]) == pytest.approx(rate, rel=1e-5)
        logits = logits - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-9)
        np.testing.assert_allclose(np.asarray(state["parameters"]["logits"]), logits, atol=1e-4)
    assert int(state["step"]) == 3


ON_EIGHT_DEVICES = """
    import sys
    sys.path.insert(0, "tests/models")
    import jax, numpy as np, jax.numpy as jnp
    from conftest import resolved
    from attention_research.config import build, build_experiment
    from attention_research.layers.structure import abstract
    from attention_research.parallel.execution import MeshExecution, PmapExecution
    from attention_research.training.step import initial_state, make_train_step
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(3):
        batch = {"source": rng.integers(4, 29, (8, 11)), "target": rng.integers(4, 29, (8, 13))}
        for row in range(8):
            batch["target"][row, 13 - row:] = 0       # unequal numbers of real tokens a device
        batches.append({k: v.astype(np.int32) for k, v in batch.items()})

    def losses(strategy, dropout, **sizes):
        parts = build_experiment(resolved(dropout_rate=dropout, width=16, num_heads=4))
        make = lambda rngs: parts.model(rngs=rngs)
        settings = parts.training()
        optimizer, schedule = settings.optimizer(16), settings.schedule(16)
        structure = abstract(make)[0]
        start = initial_state(make, optimizer)
        if strategy == "pmap":
            step = make_train_step(structure, parts.task(), optimizer, schedule, axis_name="devices")
            run = PmapExecution(step, start, 0)
        else:
            step = make_train_step(structure, parts.task(), optimizer, schedule)
            sizes = {"data": 1, "fsdp": 1, "tensor": 1, "sequence": 1, "expert": 1, **sizes}
            run = MeshExecution(step, start, sizes, 0, 1)
            if sizes["tensor"] > 1:
                kernel = run.start()["parameters"]["encoder.stack.segments.0.self_attention.query.kernel"]
                assert len({str(s.index) for s in kernel.addressable_shards}) > 1, kernel.sharding
        state, out = run.start(), []
        for batch in batches:
            state, metrics = run.step(state, run.place(batch))
            out.append(float(metrics["loss"]))
        return np.array(out)

    assert jax.device_count() == 8
    alone = np.array(eval(sys.argv[1]))
    for dropout, reference in ((0.0, alone[0]), (0.3, alone[1])):
        for sizes in ({"data": 8}, {"data": 2, "fsdp": 2, "tensor": 2}, {"fsdp": 8}):
            got = losses("jit", dropout, **sizes)
            np.testing.assert_allclose(got, reference, rtol=1e-5, err_msg=str((sizes, dropout)))
    np.testing.assert_allclose(losses("pmap", 0.0), alone[0], rtol=1e-5)
    print("agree")
"""


@pytest.mark.slow
def test_eight_devices_give_one_devices_losses(root):
    """jit on data, fsdp, tensor and their product, and pmap: three steps' losses within 1e-5, dropout on under jit."""
    source = textwrap.dedent(ON_EIGHT_DEVICES)
    single = source.split("    assert jax.device_count() == 8".strip())[0] + (
        "\nprint([losses('jit', r).tolist() for r in (0.0, 0.3)])\n"
    )
    environment = lambda flags: {
        **__import__("os").environ,
        "XLA_FLAGS": flags,
        "PYTHONPATH": str(root),
        "JAX_PLATFORMS": "cpu",
    }
    run = lambda code, flags, *words: subprocess.run(
        [sys.executable, "-c", code, *words], cwd=root, env=environment(flags), capture_output=True, text=True
    )
    alone = run(single, "")
    assert alone.returncode == 0, alone.stderr[-2000:]
    eight = run(source, "--xla_force_host_platform_device_count=8", alone.stdout.strip().splitlines()[-1])
    assert eight.returncode == 0 and "agree" in eight.stdout, eight.stderr[-3000:]


def test_replicas_equal_single_runs(small_state):
    """Two replicas by vmap follow the two seeds' own runs, dropout and all."""
    start, step, batch = small_state
    together = jax.jit(jax.vmap(start))(jnp.asarray([3, 4]))
    apart = [jax.jit(start)(seed) for seed in (3, 4)]
    both, single = jax.jit(jax.vmap(step, (0, None))), jax.jit(step)
    for _ in range(3):
        together, metrics = both(together, batch)
        for i in range(2):
            apart[i], alone = single(apart[i], batch)
            np.testing.assert_allclose(metrics["loss"][i], alone["loss"], rtol=2e-6)


@pytest.fixture(scope="module")
def small_state():
    import importlib.util

    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    spec = importlib.util.spec_from_file_location("small_models", "tests/models/conftest.py")
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    parts = build_experiment(models.resolved(dropout_rate=0.3))
    make = lambda rngs: parts.model(rngs=rngs)
    settings = parts.training()
    optimizer, schedule = settings.optimizer(12), settings.schedule(12)
    step = make_train_step(abstract(make)[0], parts.task(), optimizer, schedule)
    rng = np.random.default_rng(0)
    batch = {name: jnp.asarray(rng.integers(4, 29, (4, 7)), jnp.int32) for name in ("source", "target")}
    return initial_state(make, optimizer), step, batch

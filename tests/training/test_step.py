"""The pure train step against Adam and the loss written out in NumPy. Devices and replicas do not change the result."""

import importlib.util
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError, build_experiment, load
from attention_research.layers.structure import abstract
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.tasks.translation import Translation
from attention_research.training.optimizers import SGD, Adam
from attention_research.training.replicas import side_by_side
from attention_research.training.schedules import Noam
from attention_research.training.step import accumulated, initial_state, make_train_step
from attention_research.training.trainer import Trainer
from tests.tiers import fast_are


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Table:
    """The smallest model of the protocol: a table of logits, the same at every position."""

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
    """A structure whose merge() returns a `Table` of its one array."""

    running = ()

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


@pytest.mark.long
def test_replicas_equal_single_runs(small_state):
    """Two replicas by vmap equal the single runs of the two seeds, with dropout."""
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
    return small_run(dropout_rate=0.3, num_layers=1)


def small_run(accumulation_steps=1, **model):
    """(start, step, batch) of a small Transformer under SGD, with 6 rows of 0 to 12 real target tokens."""
    spec = importlib.util.spec_from_file_location("small_models", "tests/models/conftest.py")
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    sgd = [("training.optimizer", "sgd"), ("training.schedule", "constant"), ("training.learning_rate", 0.5)]
    parts = build_experiment(models.resolved(**model).override(sgd))
    make = lambda rngs: parts.model(rngs=rngs)
    settings = parts.training()
    optimizer, schedule = settings.optimizer(12), settings.schedule(12)
    step = make_train_step(abstract(make)[0], parts.task(), optimizer, schedule, accumulation_steps=accumulation_steps)
    return initial_state(make, optimizer), step, unequal_rows()


def unequal_rows():
    rng = np.random.default_rng(0)
    batch = {name: rng.integers(4, 29, (6, 13)).astype(np.int32) for name in ("source", "target")}
    for row, length in enumerate((12, 1, 7, 3, 0, 11)):
        batch["target"][row, length:] = 0
    return batch


class Bigrams(nnx.Module):
    """log p(target | source at the same position) from a table [29 29]."""

    def __init__(self, *, rngs):
        self.table = nnx.Param(jax.random.normal(rngs.params(), (29, 29)))

    def log_likelihood(self, batch, *, key=None):
        log_p = jax.nn.log_softmax(self.table[...])[batch["source"]]
        return {
            "log_likelihood": jnp.take_along_axis(log_p, batch["target"][..., None], -1)[..., 0],
            "smooth_log_likelihood": log_p.mean(-1),
            "mask": batch["target"] != 0,
        }, {}


def bigrams(accumulation_steps=1, axis_name=None):
    """(step, start) of the smallest model whose gradient differs between rows."""
    make = lambda rngs: Bigrams(rngs=rngs)
    optimizer, schedule = SGD()(lambda count: 5.0), lambda count: 5.0
    step = make_train_step(
        abstract(make)[0], Translation(), optimizer, schedule, accumulation_steps=accumulation_steps,
        axis_name=axis_name,
    )  # fmt: skip
    return step, initial_state(make, optimizer)


def followed(execution):
    """The losses of 3 updates, and how far the parameters moved."""
    state, losses = execution.start(), []
    names = execution.plain(state)["parameters"].keys()
    before = {name: np.asarray(execution.plain(state)["parameters"][name]) for name in names}
    for _ in range(3):
        state, metrics = execution.step(state, execution.place(unequal_rows()))
        losses.append(np.asarray(metrics["loss"]))
    after = execution.plain(state)["parameters"]
    return np.array(losses), {name: np.asarray(after[name]) - before[name] for name in names}


def plain(step, start):
    return types.SimpleNamespace(
        start=lambda: jax.jit(start)(0), step=jax.jit(step), place=lambda batch: batch, plain=lambda state: state
    )


ONE = {"data": 1, "fsdp": 1, "tensor": 1, "sequence": 1, "expert": 1}
ACCUMULATING = {
    "2": lambda: plain(*bigrams(2)),
    "6-on-a-mesh": lambda: MeshExecution(*bigrams(6), ONE, 0),
    "3-of-replicas": lambda: MeshExecution(*side_by_side(*bigrams(3)), ONE, np.asarray([0, 5], np.int32)),
    "2-under-pmap": lambda: PmapExecution(*bigrams(2, AXIS), 0),
}


def assert_same_updates(got, want):
    (losses, moved), (wanted, far) = got, want
    assert wanted[2] < wanted[0] - 0.1 and max(np.abs(x).max() for x in far.values()) > 0.1
    np.testing.assert_allclose(losses[:, 0] if losses.ndim > 1 else losses, wanted, atol=1e-5)
    for name, x in far.items():
        np.testing.assert_allclose(moved[name][0] if losses.ndim > 1 else moved[name], x, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", fast_are(["2", "6-on-a-mesh"], ACCUMULATING.keys()))
def test_accumulation_is_the_large_batch(name):
    """Parts have unequal numbers of real tokens.

    Losses and parameters of 3 updates agree to 1e-5 in every execution.
    """
    assert_same_updates(followed(ACCUMULATING[name]()), followed(plain(*bigrams())))


def test_a_device_with_only_filler_rows_counts_no_token():
    """The last batch of an epoch may leave devices without a real row. `vmap` has the collectives of pmap."""
    (alone, start), (copies, _) = bigrams(), bigrams(axis_name=AXIS)
    batch = {name: np.where(np.arange(6)[:, None] < 3, x, 0) for name, x in unequal_rows().items()}
    state, rows = jax.jit(start)(0), {name: x.reshape(3, 2, -1) for name, x in batch.items()}
    (wanted, whole), (got, parts) = alone(state, batch), jax.vmap(copies, (None, 0), axis_name=AXIS)(state, rows)
    assert parts["tokens"].tolist() == [whole["tokens"]] * 3 == [20] * 3
    for name, x in wanted["parameters"].items():
        np.testing.assert_allclose(got["parameters"][name][0], x, atol=1e-5)


@pytest.mark.slow
def test_accumulation_of_a_transformer_is_its_large_batch():
    whole, parts = (small_run(steps, dropout_rate=0.0, num_layers=1) for steps in (1, 3))
    assert_same_updates(followed(plain(parts[1], parts[0])), followed(plain(whole[1], whole[0])))


def test_each_part_draws_its_own_dropout():
    batch, key = {"x": jnp.arange(6.0)}, jax.random.key(3)
    draw = lambda part, key: (part["x"], jax.random.normal(key, (2,)))
    rows, drawn = accumulated(draw, batch, key, 3)
    assert rows.tolist() == [0 + 1 + 2, 3 + 4 + 5]
    alone = [jax.random.normal(jax.random.fold_in(key, part), (2,)) for part in range(3)]
    np.testing.assert_allclose(drawn, sum(alone), rtol=1e-6)


def test_each_step_draws_its_own_dropout():
    class Drawn(Bigrams):
        def log_likelihood(self, batch, *, key=None):
            values, aux = super().log_likelihood(batch)
            return {**values, "log_likelihood": values["log_likelihood"] + jax.random.uniform(key)}, aux

    optimizer = SGD()(lambda count: 0.0)
    step = jax.jit(make_train_step(abstract(lambda rngs: Drawn(rngs=rngs))[0], Translation(), optimizer, lambda _: 0.0))
    start = jax.jit(initial_state(lambda rngs: Drawn(rngs=rngs), optimizer))(0)
    after, first = step(start, unequal_rows())
    _, second = step(after, unequal_rows())
    assert first["loss"] == step(start, unequal_rows())[1]["loss"] != second["loss"]


def test_a_batch_that_does_not_divide_is_refused(root):
    config = load(f"{root}/configs/translation/transformer.py:smoke")
    with pytest.raises(ConfigError, match="config.training.accumulation_steps: 3 does not divide batch_size 16"):
        config.override([("training.accumulation_steps", 3)])
    run = PmapExecution(lambda state, batch: (state, batch), lambda seed: seed, 0)
    run.check(12, 3, ())
    run.devices = 2
    with pytest.raises(
        ConfigError,
        match=r"^config.training.batch_size: expected a multiple of 6, because pmap splits the rows over 2 ",
    ):
        run.check(15, 3, ())


def test_data_without_what_a_task_reads_are_refused_in_one_line(root, monkeypatch):
    monkeypatch.chdir(root)
    pairs = {"kind": "pairs", "name": "wmt14_translate/fr-en", "source_language": "fr", "target_language": "en"}
    trainer = Trainer(load("configs/classification/text.py:smoke", [("data", pairs)]))
    step, start = trainer.step_and_start
    state, batch = jax.eval_shape(start, 0), trainer.largest_evaluation_batch(4)
    model = state["parameters"], state["statistics"]
    for function, given in ((step, state), (trainer.losses, model)):
        with pytest.raises(
            ConfigError, match=r"^config\.data\.kind: its batches have source, target, not label, which"
        ):
            jax.eval_shape(function, given, batch)

"""Every optimizer's state on a mesh: its shards, the same losses as on one device, checkpoints moved between meshes."""

import subprocess
import sys
import textwrap

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from attention_research.parallel.rules import state_shardings
from attention_research.registry import FAMILIES
from attention_research.training.optimizers import Adafactor, Adam
from tests.parallel.programs import environment
from tests.tiers import slow_are

KERNEL, TABLE = "encoder.stack.segments.0.self_attention.query.kernel", "vocabulary.table"
SHAPES = {KERNEL: (2, 8, 16), "encoder.stack.segments.0.self_attention.query.bias": (2, 16), TABLE: (32, 8)}


def state_of(optimizer):
    parameters = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in SHAPES.items()}
    state = jax.eval_shape(optimizer(lambda count: 0.1).init, parameters)
    return {"step": jax.ShapeDtypeStruct((), "int32"), "parameters": parameters, "statistics": {}, "optimizer": state}


def specs(optimizer):
    mesh = AbstractMesh((2, 2, 2, 1, 1), ("data", "fsdp", "tensor", "sequence", "expert"))
    return jax.tree.map(lambda sharding: sharding.spec, state_shardings(state_of(optimizer), mesh))


def test_moments_of_the_parameters_shape_follow_its_rule():
    """The layer axis of a stack is never split: the rule applies to one layer's weight [in, out]."""
    found = specs(Adam())
    moments = found["optimizer"][0]
    for tree in (found["parameters"], moments.mu, moments.nu):
        assert tree[KERNEL] == PartitionSpec(None, "fsdp", "tensor") and tree[TABLE] == PartitionSpec("tensor", "fsdp")
    assert found["step"] == moments.count == PartitionSpec()


def test_adafactors_rows_and_columns_are_replicated_and_whole_moments_are_not():
    of = lambda size: specs(Adafactor(min_dim_size_to_factor=size))["optimizer"]
    stack = "encoder.stack.segments.0"
    factored, whole = of(8), of(1000)
    assert factored[stack][0].v_row[KERNEL] == factored[stack][0].v_col[KERNEL] == PartitionSpec()
    assert factored[""][0].v_row[TABLE] == factored[""][0].v_col[TABLE] == PartitionSpec()
    assert whole[stack][0].v[KERNEL] == PartitionSpec(None, "fsdp", "tensor")


ON_FOUR_DEVICES = """
    import sys, tempfile, pathlib
    sys.path.insert(0, "tests/models")
    import jax, numpy as np
    from conftest import resolved
    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract
    from attention_research.parallel.execution import MeshExecution
    from attention_research.training.checkpoints import Checkpoints
    from attention_research.training.step import initial_state, make_train_step

    jax.config.update("jax_disable_most_optimizations", True)
    rng = np.random.default_rng(0)
    batches = [{k: rng.integers(4, 32, (8, 13)).astype(np.int32) for k in ("source", "target")} for _ in range(4)]
    for batch in batches:
        for row in range(8):
            batch["target"][row, 13 - row:] = 0
    KERNEL, TABLE = "encoder.stack.segments.0.self_attention.query.kernel", "vocabulary.table"
    MESHES = {"data-tensor": {"data": 2, "tensor": 2}, "fsdp-tensor": {"fsdp": 2, "tensor": 2}, "fsdp": {"fsdp": 4}}
    SIZES = {"data": 1, "fsdp": 1, "tensor": 1, "sequence": 1, "expert": 1}

    def parts_of(kind, settings):
        normalised = kind in ("adam", "adamw", "adafactor", "muon", "rmsprop")
        optimizer = [("training.optimizer", {"kind": kind, **settings}), ("training.schedule", "constant"),
                     ("training.learning_rate", 0.02 if normalised else 0.5)]
        model = dict(width=16, num_heads=4, num_layers=2, dropout_rate=0.1)
        parts = build_experiment(resolved(**model).override([("vocabulary_size", 32), *optimizer]))
        make, training = lambda rngs: parts.model(rngs=rngs), parts.training()
        optimizer, schedule = training.optimizer(16), training.schedule(16)
        return make_train_step(abstract(make)[0], parts.task(), optimizer, schedule), initial_state(make, optimizer)

    def follow(step, state, place, batches):
        losses = []
        for batch in batches:
            state, metrics = step(state, place(batch))
            losses.append(float(metrics["loss"]))
        return losses, state

    assert jax.device_count() == 4
    kind, settings = sys.argv[1], eval(sys.argv[2])
    step, start = parts_of(kind, settings)
    alone, last = follow(jax.jit(step), jax.jit(start)(0), dict, batches)
    assert alone[3] < alone[0] - 0.005, (kind, alone)
    runs = {name: MeshExecution(step, start, {**SIZES, **sizes}, 0) for name, sizes in MESHES.items()}
    for name, run in runs.items() if kind == "adafactor" else [("fsdp-tensor", runs["fsdp-tensor"])]:
        losses, state = follow(run.step, run.start(), run.place, batches)
        np.testing.assert_allclose(losses, alone, rtol=1e-5, err_msg=f"{kind} {name}")
        leaves = [x for path, x in jax.tree_util.tree_flatten_with_path(state["optimizer"])[0]
                  if path[-1] == jax.tree_util.DictKey(KERNEL)]
        for x in (state["parameters"][KERNEL], *leaves):
            pieces = len({str(shard.index) for shard in x.addressable_shards})
            axes = {"data-tensor": 2, "fsdp-tensor": 4, "fsdp": 4}[name]
            assert pieces == (axes if x.shape == (2, 16, 16) else 1), (kind, name, x.shape, pieces)
    if kind == "adafactor":
        rows = [x for x in leaves if x.shape == (2, 16)]
        assert len(rows) == 2, [x.shape for x in leaves]
        folder = pathlib.Path(tempfile.mkdtemp())
        one = runs["data-tensor"]
        state = follow(one.step, one.start(), one.place, batches[:2])[1]
        with Checkpoints(folder) as checkpoints:
            checkpoints.save(2, one.plain(state))
            checkpoints.wait()
            saved = jax.tree.map(np.asarray, state)
            for name in ("fsdp", "fsdp-tensor"):
                other = runs[name]
                state = other.restored(checkpoints.restore(2, other.abstract))
                same = jax.tree.map(lambda x, y: bool((np.asarray(x) == y).all()), state, saved)
                assert jax.tree.all(same), name
                assert all(x.sharding.is_equivalent_to(y.sharding, x.ndim) for x, y in
                           zip(jax.tree.leaves(state), jax.tree.leaves(other.abstract)))
                np.testing.assert_allclose(follow(other.step, state, other.place, batches[2:])[0], alone[2:], rtol=1e-5)
    print("agree")
"""
#: Every optimizer of the registry, with settings that make it keep state.
KINDS = {
    "adam": {},
    "adamw": {},
    "adafactor": {"min_dim_size_to_factor": 16},
    "sgd": {"momentum": 0.5},
    "adadelta": {},
    "muon": {},
    "rmsprop": {"epsilon": 0.1},
    "simplex": {"inner": {"kind": "sgd", "momentum": 0.5}},
}


def test_every_optimizer_has_settings():
    assert KINDS.keys() == FAMILIES["optimizer"].keys()


@pytest.mark.parametrize("kind", slow_are(["adafactor"], [*KINDS]))
def test_an_optimizer_on_four_devices_gives_one_devices_losses(kind, root):
    """Four updates on data, fsdp and tensor axes.

    Adafactor's checkpoint of one mesh continues equally on two others.
    """
    code = [sys.executable, "-c", textwrap.dedent(ON_FOUR_DEVICES), kind, repr(KINDS[kind])]
    done = subprocess.run(code, cwd=root, env=environment(4), capture_output=True, text=True)
    assert done.returncode == 0 and "agree" in done.stdout, done.stderr[-3000:]

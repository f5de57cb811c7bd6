"""Checkpoints on real files: bitwise round trips, damaged checkpoints, full disks, deletion, which ones are kept."""

import gc
import json
import resource
import shutil
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attention_research.errors import RunError
from attention_research.training import digests
from attention_research.training.checkpoints import Checkpoints
from tests.tiers import fast_are


def make_state(seed=0, rows=37):
    """A state of a few kilobytes that contains an optimizer's nested tuples."""
    keys = jax.random.split(jax.random.key(seed), 3)
    parameters = {f"layer_{i}.kernel": jax.random.normal(key, (rows, 53)) for i, key in enumerate(keys)}
    with jax.numpy_dtype_promotion("standard"):
        optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lambda count: 1e-3)).init(parameters)
    return {"step": jnp.asarray(seed, jnp.int32), "parameters": parameters, "statistics": {}, "optimizer": optimizer}


def shape_of(state):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)


def equal(a, b):
    return jax.tree.all(
        jax.tree.map(lambda x, y: x.dtype == y.dtype and bool((np.asarray(x) == np.asarray(y)).all()), a, b)
    )


@pytest.fixture
def limit_file_size():
    """set(bytes): the kernel refuses to let a file grow beyond this size, as on a full disk.

    Restored after the test.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or before[0], before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def settings(**values):
    stop = {"stop_at": None, "stop_by": "correct", "stop_checks": 2}
    return SimpleNamespace(**{"keep": 2, "keep_best": 0, "checkpoint_every": 1, "steps": 100, **stop, **values})


def test_checkpoints_hold_the_state_at_saving_while_training_continues(tmp_path):
    """The steps donate the arrays that are being written: their memory is reused before the write has ended."""
    step = jax.jit(lambda state: jax.tree.map(lambda x: x * 2 + 1, state), donate_argnums=0)
    state = make_state(rows=3001)
    expected = jax.tree.map(np.array, state)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state)
        for _ in range(5):
            state = step(state)
        jax.block_until_ready(state)
        checkpoints.wait()
        restored = checkpoints.restore(1, shape_of(state))
    assert equal(restored, expected) and not equal(state, expected)
    assert type(restored["optimizer"][1][0]) is optax.ScaleByAdamState


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A workdir with checkpoints at 4 and 6."""
    workdir = tmp_path_factory.mktemp("two")
    with Checkpoints(workdir) as checkpoints:
        for step in (4, 6):
            checkpoints.save(step, make_state(step))
    return workdir


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


HARMS = {"truncated": half, "one_bit": one_bit, "missing": lambda path: path.unlink()}
VICTIMS = ("the largest", "manifest.ocdbt", "_METADATA", digests.NAME)


@pytest.mark.parametrize("harm", fast_are(["one_bit", "missing"], HARMS))
@pytest.mark.parametrize("victim", fast_are(["the largest", "_METADATA"], VICTIMS))
def test_a_damaged_checkpoint_is_skipped_for_the_previous_and_says_so(two, tmp_path, victim, harm):
    workdir, said = tmp_path / "run", []
    shutil.copytree(two, workdir)
    folder = workdir / "checkpoints" / "6"
    files = [path for path in folder.rglob("*") if path.is_file()]
    harm(max(files, key=lambda path: path.stat().st_size) if victim == "the largest" else folder / victim)
    with Checkpoints(workdir, None, said.append) as checkpoints:
        assert checkpoints.latest() == 4 and checkpoints.steps() == [4, 6]
        assert (
            len(said) == 1 and said[0].startswith("checkpoint 6 in ") and "damaged (" in said[0] and "\n" not in said[0]
        )
        assert checkpoints.clean() == 4 and checkpoints.steps() == [4]
        assert equal(checkpoints.restore(4, shape_of(make_state())), make_state(4))
        checkpoints.save(6, make_state(6))
        checkpoints.wait()
        assert checkpoints.latest() == 6
    assert (workdir / "checkpoints" / "damaged-6").is_dir()


def test_without_a_good_checkpoint_there_is_none(two, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(two, workdir)
    for path in workdir.glob("checkpoints/*/manifest.ocdbt"):
        path.write_text("")
    with Checkpoints(workdir) as checkpoints:
        assert checkpoints.latest() is None and checkpoints.clean() is None and checkpoints.steps() == []


def test_unfinished_checkpoints_are_deleted_by_the_next_run_only(two, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(two, workdir)
    left = [workdir / "checkpoints" / name for name in ("8.orbax-checkpoint-tmp", "deleting-2")]
    for path in left:
        shutil.copytree(workdir / "checkpoints" / "4", path)
    with Checkpoints(workdir) as reader:  # an evaluation, while a training process may be writing
        assert reader.steps() == [4, 6] and reader.latest() == 6
    assert all(path.exists() for path in left)
    with Checkpoints(workdir, settings()) as writer:
        assert writer.clean() == 6
    assert not any(path.exists() for path in left)


def test_a_reader_deletes_no_checkpoint_of_a_live_run(two, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(two, workdir)
    with Checkpoints(workdir, settings(keep=1)) as reader:
        assert equal(reader.restore(4, shape_of(make_state())), make_state(4))
    assert reader.steps() == [4, 6]
    with Checkpoints(workdir, settings(keep=1)) as writer:
        writer.clean()
    assert writer.steps() == [6]


def validation(workdir, losses):
    lines = [{"step": step, "split": "validation", "loss": loss} for step, loss in losses]
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_newest_the_scheduled_and_the_best_stay(tmp_path):
    """Validation at 2, 5 and 9 (two seeds). An interruption saved 7: it is kept until the next scheduled checkpoint."""
    validation(tmp_path, [(2, 5.0), (2, 4.0), (5, 2.0), (5, 1.0), (9, 1.9), (9, 1.7), (10, float("nan"))])
    state, left = {"a": jnp.ones(3)}, {}
    with Checkpoints(tmp_path, settings(checkpoint_every=4, steps=10, keep_best=1)) as checkpoints:
        for step in (2, 4, 5, 7, 8, 9, 10):
            checkpoints.save(step, state)
            checkpoints.wait()
            left[step] = checkpoints.steps()
        assert checkpoints.scheduled() == [8, 10]
        assert checkpoints.best(2) == [5] and [checkpoints.would_be_kept(step) for step in (2, 5, 9, 10)] == [
            False, True, False, False,
        ]  # fmt: skip
    assert left == {
        2: [2], 4: [2, 4], 5: [4, 5], 7: [4, 5, 7], 8: [4, 5, 8], 9: [4, 5, 8, 9], 10: [5, 8, 10],
    }  # fmt: skip


def test_the_last_step_of_a_run_that_ended_early_is_on_the_schedule(tmp_path):
    lines = [{"step": step, "split": "validation", "correct": correct} for step, correct in ((2, 0.5), (4, 1), (6, 1))]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for step in (4, 6):
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
    found = [Checkpoints(tmp_path, settings(checkpoint_every=4, stop_at=at)).scheduled() for at in (None, 2.0, 0.9)]
    assert found == [[4], [4], [4, 6]]


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays(two, tmp_path, limit_file_size, capfd):
    workdir = tmp_path / "run"
    shutil.copytree(two, workdir)
    with Checkpoints(workdir) as checkpoints:
        limit_file_size(4096)
        with pytest.raises(RunError) as caught:
            checkpoints.save(8, make_state(8))
            checkpoints.wait()
        limit_file_size(None)
        line = str(caught.value)
        assert "checkpoint 8 not written" in line and "File too large" in line and "continues from step 6" in line
        assert "\n" not in line and checkpoints.steps() == [4, 6] and checkpoints.latest() == 6
        assert not list((workdir / "checkpoints").glob("8*"))
        checkpoints.save(8, make_state(8))
        checkpoints.wait()
        assert equal(checkpoints.restore(8, shape_of(make_state())), make_state(8))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_warnings_of_orbax_after_a_failure_are_suppressed(two, tmp_path, limit_file_size):
    """Orbax abandons coroutines. Python would warn about them after the line with the error, even at exit."""

    async def abandoned():
        """Never awaited."""

    shutil.copytree(two, tmp_path / "run")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Checkpoints(tmp_path / "run") as checkpoints:
            limit_file_size(4096)
            with pytest.raises(RunError, match="not written"):
                checkpoints.save(8, make_state(8))
                checkpoints.wait()
            limit_file_size(None)
        abandoned()
        gc.collect()
    assert not [warning for warning in caught if "never awaited" in str(warning.message)]


def test_a_restore_lists_missing_unexpected_and_misshaped(tmp_path):
    wanted = lambda **arrays: {"parameters": {n: jax.ShapeDtypeStruct(*x) for n, x in arrays.items()}}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"parameters": {"a": jnp.ones(3), "b": jnp.ones((2, 2))}})
        checkpoints.wait()
        with pytest.raises(RunError) as caught:
            checkpoints.restore(1, wanted(b=((2, 3), jnp.float32), **{f"c{i}": ((1,), jnp.float32) for i in range(7)}))
        line = str(caught.value)
        assert "missing: parameters/c0, " in line and "parameters/c4 and 2 more; " in line and "\n" not in line
        assert "unexpected: parameters/a;" in line and "parameters/b is (2, 2) float32, wanted (2, 3) float32" in line
        with pytest.raises(RunError, match="float32, wanted .* bfloat16"):
            checkpoints.restore(1, wanted(a=((3,), jnp.bfloat16), b=((2, 2), jnp.float32)))
        only = checkpoints.restore(1, wanted(a=((3,), jnp.float32), b=((2, 2), jnp.float32)))
        assert equal(only, {"parameters": {"a": jnp.ones(3), "b": jnp.ones((2, 2))}})

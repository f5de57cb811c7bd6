"""The time that counts as a step's time, on a fake clock; operations that a step may not do while it is timed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.training.clock import AHEAD, Clock

BATCH = {"target": np.ones((2, 3), np.int32)}


class Time:
    """A clock that the test advances."""

    def __init__(self):
        self.value = 100.0

    def __call__(self):
        return self.value

    def passes(self, seconds, result=None):
        self.value += seconds
        return result


def test_steps_compilation_evaluation_and_waiting_are_separated():
    time = Time()
    clock = Clock(time)
    metrics = {"tokens": jnp.asarray(12.0), "loss": jnp.asarray(1.0)}
    step = lambda state, batch: time.passes(3.0, (state + 1, metrics))
    batches = (time.passes(1.0, (i, BATCH)) for i in range(9))
    state, _ = clock.run(step, 0, clock.next(batches, dict))
    assert clock.compile_seconds == 3.0 and clock.timed == 0
    assert clock.lap() == {"tokens_per_second": None, "data_wait": None}
    nothing = dict.fromkeys(("steps_per_second", "tokens_per_second", "data_wait"))
    assert clock.summary() == {**nothing, "seconds": 4.0, "compile_seconds": 3.0}  # of a run of one step
    for _ in range(2):
        state, _ = clock.run(step, state, clock.next(batches, dict))
    with clock.paused():
        time.passes(50.0)
    for _ in range(2):
        state, _ = clock.run(step, state, clock.next(batches, dict))
    assert clock.lap() == {"tokens_per_second": 3.0, "data_wait": 0.25}  # 4 steps of 12 tokens in 1 + 3 seconds each
    other = {"target": np.ones((2, 5), np.int32)}
    clock.run(step, state, other)
    assert clock.compile_seconds == 6.0 and clock.timed == 4
    summary = clock.summary()
    assert summary["seconds"] == 5 * 1 + 6 * 3 and summary["data_wait"] == 5 / 17
    assert summary["steps_per_second"] == 4 / 17 and summary["tokens_per_second"] == 48 / 17


@pytest.mark.parametrize("what", ["an array of the host", "a number of the host"])
def test_a_step_that_needs_something_from_the_host_is_refused(what):
    add = jax.jit(lambda x, y: x + y)
    fine = lambda state, batch: (add(state, batch["target"]), {"tokens": state})
    other = np.ones((2, 3), np.int32) if what == "an array of the host" else 1
    waits = lambda state, batch: (add(state, other), {"tokens": state})
    clock = Clock()
    state, batch = jax.device_put((np.zeros((2, 3), np.int32), dict(BATCH)))
    for _ in range(3):
        state, _ = clock.run(fine, state, batch)
    with pytest.raises(Exception, match="Disallowed host-to-device transfer"):
        clock.run(waits, state, batch)


def test_the_loop_runs_ahead_of_the_devices_by_a_few_steps_only():
    done, clock = [], Clock()

    class Metric:
        def __init__(self, number):
            self.number = number

        def block_until_ready(self):
            done.append(self.number)
            return self

    for number in range(6):
        clock.run(lambda state, batch, number=number: (state, {"tokens": Metric(number)}), 0, BATCH)
    assert done == [0, *range(1, 6 - AHEAD)]  # 0 was compiled; all others but the last AHEAD have ended

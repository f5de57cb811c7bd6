"""The time left that a run prints: from the steps so far, without compilation."""

import pytest

from attention_research.training import progress
from attention_research.training.clock import Clock


@pytest.fixture
def run(monkeypatch):
    """run(logged): the lines that are printed for (second, step, seconds of compilation, timed steps) of each log."""
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)

    def printed(logged, steps=100):
        said, now = [], iter([0.0, *(second for second, *_ in logged)])
        monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
        clock = Clock(now=lambda: 0.0)
        shown = progress.Progress(steps, said.append, every=0.0)
        for _, step, compiling, timed in logged:
            clock.compile_seconds, clock.timed, clock.counted = compiling, timed, 10.0 * timed
            shown.update(step, 2.0, clock)
        return said

    return printed


def test_the_first_estimate_leaves_out_the_step_that_compiles(run):
    """The first step takes 40 s, each of the other nine 1 s: 90 steps are left."""
    assert run([(49.0, 10, 40.0, 9)]) == ["step 10/100  loss 2.000  1.0 steps/s  10 tokens/s  left 1:30"]


def test_a_later_shape_does_not_change_the_estimate(run):
    said = run([(49.0, 10, 40.0, 9), (88.0, 20, 70.0, 18)])
    assert said[1].endswith("1.0 steps/s  10 tokens/s  left 1:20")


def test_without_a_timed_step_the_earlier_speed_holds_or_none(run):
    said = run([(40.0, 1, 40.0, 0), (41.0, 2, 40.0, 1), (61.0, 3, 60.0, 1)])
    assert [line.rpartition("  left ")[2] for line in said] == ["-:--", "1:38", "1:37"]

"""Real signals sent to this process."""

import os
import signal

import pytest

from attention_research.training import interruption
from attention_research.training.interruption import Interrupted, stopping


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_patient_block_continues_until_it_leaves(number, status):
    said, done, before = [], [], signal.getsignal(number)
    with pytest.raises(Interrupted) as caught, stopping(said.append) as stop:
        stop.patient = True
        stop.leave("nothing has come")
        send(number)
        done.append("the step")
        stop.leave("saved step 3")
    assert done == ["the step"] and said == [f"{signal.Signals(number).name}: saved step 3"]
    assert caught.value.code == status and signal.getsignal(number) is before


def test_a_signal_before_the_first_step_ends_at_once():
    said, done = [], []
    with pytest.raises(Interrupted), stopping(said.append):
        send(signal.SIGTERM)
        done.append("too late")
    assert not done and said[0].startswith("SIGTERM: stopped at once; the same command continues")


def test_simultaneous_signals_count_once():
    said, done = [], []
    with pytest.raises(Interrupted), stopping(said.append) as stop:
        stop.patient = True
        send(signal.SIGTERM)
        send(signal.SIGTERM)  # once from the scheduler, and once forwarded by the supervisor
        done.append("the step")
        stop.leave("saved step 3")
    assert done == ["the step"] and said == ["SIGTERM: saved step 3"]


def test_a_second_signal_ends_at_once(monkeypatch):
    monkeypatch.setattr(interruption, "_TOGETHER_SECONDS", 0.0)
    said, done = [], []
    with pytest.raises(Interrupted) as caught, stopping(said.append) as stop:
        stop.patient = True
        send(signal.SIGTERM)
        send(signal.SIGINT)
        done.append("too late")
    assert not done and caught.value.code == 130

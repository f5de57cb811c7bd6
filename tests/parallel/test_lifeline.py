"""The messages between hosts about a lost one. `test_hosts.py` runs two hosts."""

import socket

import pytest

from attention_research.parallel.lifeline import heard, message


@pytest.mark.parametrize("lost", [None, 0, 254, 255, 70_000])
def test_a_message_names_any_host(lost):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(message(lost))
        assert heard(ours, 3) == lost


def test_a_host_whose_connection_breaks_is_lost():
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(message(5)[:2])
        theirs.close()
        assert heard(ours, 3) == 3

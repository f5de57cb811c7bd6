"""Detects the loss of a host during training, through a connection from every host to the first.

When a process dies, its kernel closes the connection. When a machine dies, keep-alive probes notice it within `SILENCE`
seconds. Without this, the other hosts would wait in a collective until XLA's runtime aborts them with a stack trace.
Here each of them prints one line and exits with status 1, even if XLA aborts first. A host that ends normally sends a
message before it closes its connection.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import jax
import numpy as np

#: Seconds after which a machine that does not answer counts as lost.
SILENCE = 15
_PROBES = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": SILENCE // 3 - 1}
#: The number of bytes of a message.
_SIZE = 4
_REMEDY = "start all of them again: the same command continues"
#: The error if it is not known which host is lost.
GONE = f"a host is gone; {_REMEDY}"
_handlers: list[Callable[[int], None]] = []


@contextmanager
def lifeline(address: str | None, told: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, the loss of any host ends this process with status 1, after `told(line)`.

    `address` is the name of the first host, by default its own host name. A host that cannot connect to the first
    continues without this detection, with a warning.
    """
    if jax.process_count() == 1:
        yield
        return
    here = jax.process_index()
    lines = _listen(address) if here == 0 else _connect()
    last_word = threading.Lock()  # only one thread ends this process, with one line

    def lost(host: int) -> None:
        if last_word.acquire(blocking=False):
            line = f"host {host} of {jax.process_count()} is gone; {_REMEDY}"
            told(line)
            os.write(sys.stderr.fileno(), f"\nerror: {line}\n".encode())
            for line_to, other in lines.items():
                with suppress(OSError):
                    if line_to != host:
                        other.sendall(message(host))
            os._exit(1)

    def watch(host: int, line: socket.socket) -> None:
        gone = heard(line, host)
        if gone is not None:
            lost(gone)

    _at_abort(f"\nerror: {GONE}\n")
    for host, line in lines.items():
        threading.Thread(target=watch, args=(host, line), daemon=True).start()
    in_order = True
    try:
        yield
    except Exception:  # not the SystemExit of a signal, on which all hosts end
        in_order = False
        raise
    finally:
        last_word.acquire()
        if not in_order:
            _at_abort("")
        for line in lines.values():
            with suppress(OSError):
                if in_order:
                    line.sendall(message(None))
                line.shutdown(socket.SHUT_RDWR)  # `close` alone has no effect while `watch` reads the socket
            line.close()


def message(lost: int | None) -> bytes:
    """Says that the host `lost` is gone, or, with None, that the sender ends normally."""
    return (0 if lost is None else lost + 1).to_bytes(_SIZE, "big")


def heard(line: socket.socket, host: int) -> int | None:
    """Waits for the message of `host`. Returns the host that is lost, or None if `host` ends normally. If the
    connection breaks, `host` itself is lost."""
    said = b""
    with suppress(OSError):
        said = line.recv(_SIZE, socket.MSG_WAITALL)
    if len(said) < _SIZE:
        return host
    return int.from_bytes(said, "big") - 1 if any(said) else None


def _at_abort(line: str) -> None:
    """Prints `line` and exits with status 1 if XLA's runtime, which also notices the lost host, aborts this process."""

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def say(number: int) -> None:
        os.write(sys.stderr.fileno(), line.encode())
        os._exit(1)

    _handlers.append(say)  # keeps it alive: C holds no reference
    ctypes.CDLL(None).signal(signal.SIGABRT, say)


def _listen(address: str | None) -> dict[int, socket.socket]:
    """Accepts the connections of the other hosts, on the first host. Returns host -> connection."""
    with socket.create_server(("", 0)) as server:
        _say_where(f"{address or socket.gethostname()}:{server.getsockname()[1]}")
        server.settimeout(SILENCE)
        lines: dict[int, socket.socket] = {}
        with suppress(TimeoutError):
            while len(lines) < jax.process_count() - 1:
                line, _ = server.accept()
                line.settimeout(None)
                lines[int.from_bytes(line.recv(4), "big")] = _kept_alive(line)
    return lines


def _connect() -> dict[int, socket.socket]:
    """Connects to the first host, on another host. Returns {0: connection}, or {} if the first is not reachable."""
    name, _, port = _say_where("").rpartition(":")
    try:
        line = socket.create_connection((name, int(port)), timeout=SILENCE)
    except OSError as error:
        print(f"host {jax.process_index()}: {name}:{port} cannot be reached ({error}); a lost host is noticed later",
              file=sys.stderr)  # fmt: skip
        return {}
    line.settimeout(None)
    line.sendall(jax.process_index().to_bytes(4, "big"))
    return {0: _kept_alive(line)}


def _kept_alive(line: socket.socket) -> socket.socket:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):  # Linux only
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line


def _say_where(text: str) -> str:
    """The first host's text, on all hosts."""
    from jax.experimental import multihost_utils

    letters = np.zeros(256, np.uint8)
    letters[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(letters))).rstrip(b"\0").decode()

"""Runs a program of this folder in a fresh process with fake CPU devices, whose number is fixed when JAX starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def environment(devices: int) -> dict[str, str]:
    """This process's environment, with the given number of devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}".strip()
    return {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}


def on_devices(devices: int, program: str, *words: Any) -> Any:
    """Runs ``python -m tests.parallel.<program> WORD ...`` with words as JSON.

    Returns its last line, parsed as JSON.
    """
    command = [sys.executable, "-m", f"tests.parallel.{program}", *map(json.dumps, words)]
    done = subprocess.run(command, cwd=ROOT, env=environment(devices), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
